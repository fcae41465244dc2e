// Package bfd finds out within fractions of a second that a peer cannot be
// reached: Bidirectional Forwarding Detection (RFC 5880) in asynchronous mode
// over a single hop (RFC 5881), without echo, demand mode or authentication.
//
//   - Packet is the wire format; a packet that must be discarded is an error.
//   - Machine is the state machine, without clock or I/O.
//   - Session gives it a clock: it sends, and finds out that nothing came.
//   - Hub has the sockets. It listens only while there is a session.
//
// It needs no capability: its ports are above 1023.
package bfd
