// Package link sends and receives frames of one protocol on one link through
// an AF_PACKET socket that stays open, packet(7). It needs CAP_NET_RAW.
//
// There is a socket per link and protocol in use, and not one for both: that
// one would have to be bound to every protocol, so that the kernel would show
// it each packet of the node, and each frame of VLANs on top of the link as
// if it were the link's own.
package link

import (
	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
)

// Network opens ports. Its real side is Kernel, its fake one linktest.Segment.
type Network interface {
	// Open opens a port. heard is called, from one goroutine of the port's
	// own, for every claim that comes in from the link; frames that this
	// host sends are not heard.
	Open(at plan.Port, hw frame.Hardware, heard func(frame.Claim)) (Port, error)
}

// Port is an open socket.
type Port interface {
	// Send hands a frame to the kernel. An error means that it did not go
	// out: among others ENETDOWN from a link that is down, and ENOBUFS when
	// a queue is full or a filter on the way out (nftables netdev egress)
	// dropped it.
	Send(frame.Frame) error
	// Counts returns what came in so far.
	Counts() Counts
	// Close closes the socket and waits for the receiving goroutine.
	Close() error
}

// Counts count frames that passed the socket's filter.
type Counts struct {
	// Received were read, Malformed of them made no sense.
	Received, Malformed uint64
	// Dropped were lost since the reader, which is limited to a bounded part
	// of a processor, did not keep up.
	Dropped uint64
}
