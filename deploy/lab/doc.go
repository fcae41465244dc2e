// Package lab runs vipod for real on one Linux machine: network namespaces
// are the nodes, the client and the pods, joined by a bridge; etcd, a
// kube-apiserver with RBAC and a kube-proxy per node are the real programs;
// every daemon runs under its own uid with only its own capability.
//
// Inputs: the programs in Options.BinDir, the manifests in Options.Manifests.
// It owns, and Down removes: the network namespaces named vl-<lab>-<role>,
// the directory /run/vipod-lab/<lab> with the mounts below it, and the
// processes recorded there. The machine's own network namespace gets no
// address, route, rule or process of a lab.
//
// Roles, which are also the names used by every method:
//
//	lan     the bridge, with the address of the default route
//	cp      etcd and the API server
//	client  where tests and measurements connect from
//	n1..    the nodes
//	p1..    the pods
package lab
