// Package netsafe talks to rtnetlink where the usual libraries do not go or
// do not go safely: addresses with IFA_PROTO, dumps that are repeated when
// the kernel says that they were interrupted, many changes in one round trip,
// and multicast groups that only ever wake somebody up and never go deaf.
//
// Every call works in the network namespace of the calling thread. Reading
// and subscribing need no capability, changing needs CAP_NET_ADMIN.
package netsafe
