// Package e2e holds the end-to-end tests: vipod in a lab, every daemon under
// its own uid and capability, a real API server and kube-proxy, and a client
// on the same LAN that asks and records what it sees.
//
// All tests share one lab. Each has Services and addresses of its own, and
// leaves the nodes as it found them.
package e2e
