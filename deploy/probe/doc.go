// Package probe measures from a client what a virtual IP does: which machine
// claims it (Capture) and how long it does not answer (Prober).
//
// Both open packet sockets in the network namespace of the calling thread, so
// in a lab they are made inside Lab.InNS; what they return can be used from
// anywhere. They change nothing on the machine.
package probe
