// Package routed tests vipod end to end in the modes for networks that route:
// a lab whose client is a router with BIRD and a session to each node. What
// the client asks a VIP for goes by the routes that BIRD learned.
package routed
