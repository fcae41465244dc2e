// Package plan says what is to be announced: pure, deterministic, without
// clock or I/O.
//
// Of makes the list of paths from elector's documents. A prefix that several
// VIPs want is one path, which goes when the last of them goes; it is leaving
// only when all of them are. Difference says what one session must send so
// that its peer knows the list and nothing else.
package plan
