// Package session is the conversation with one peer: it dials, agrees on what
// can be announced, and then keeps the peer's knowledge equal to the list of
// paths that it was given. It never listens and takes nothing in.
//
// Ways a session ends, and what the peer makes of it under graceful restart
// (RFC 4724):
//
//   - The process leaves (the context of Run ends, or a crash): the connection
//     closes without a NOTIFICATION, so that the peer keeps the paths and goes
//     on sending here until a successor of this process has told them anew.
//   - Stop: paths are withdrawn, then a Cease follows and the connection
//     closes. Nothing stays.
//   - The peer or the network ends it: another one is tried, at once if this
//     one had lasted, then at growing intervals.
package session
