// Package faults does to a lab what happens to clusters, one fault after the
// other, and watches from outside what becomes of the VIPs.
//
// A fault is one Case: what is done to which nodes, the right outcome, and the
// bound within which it must come. One runner serves all of them: it brings a
// Service up, starts an Observer, does the fault, waits for the outcome, ends
// the fault, waits until everything is whole, deletes the Service and looks
// for what is left. Everything seen goes into a History, a file of JSON lines,
// which the pure function Check judges. A new fault is one more Case.
package faults
