// Package kube is elector's side towards the Kubernetes API, and the only
// package of vipod that links client-go.
//
// It reads Services, EndpointSlices, Nodes (into Stores, which say only that
// something changed) and Leases (as events in the order of the watch, on which
// the claim protocol rests), and writes this node's Lease, the control plane's
// Lease, the status of Services and Events. Leases have a connection of their
// own without a rate limit: a renewal never waits for anything else.
package kube
