// Package reconcile is elector's loop. One goroutine owns both ownership
// machines and all documents; everything else reaches it through channels:
// events of Leases in the order of the watch, triggers for Services,
// EndpointSlices and Nodes and for the other daemons' files, the outcome of
// its own writes, and one timer.
//
// Each pass reads what changed, plans if the cluster or this node changed,
// tells the machines what is wanted, writes the documents that changed, then
// the grant, and starts an update of a Lease if one is due. A renewal of
// another node's Lease costs no pass.
package reconcile
