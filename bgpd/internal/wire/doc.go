// Package wire reads and writes the messages of BGP-4 (RFC 4271) that a
// speaker needs which announces and learns nothing: it writes OPEN, UPDATE,
// KEEPALIVE and NOTIFICATION, and reads all but UPDATE. What peers announce is
// never looked into, so that no message of theirs can do harm there or take
// memory.
//
// It does no I/O beyond the reader that it is given. Its tests hold it against
// another implementation, GoBGP's.
package wire
