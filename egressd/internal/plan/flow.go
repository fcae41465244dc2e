package plan

import (
	"net/netip"

	"github.com/vipod/vipod/shared/schema"
)

// Flow is a connection that the kernel tracks, as its first packet came
// (Source, Destination) and as an answer looks before it is translated back:
// ReplyTo is the source that the other end sees, ReplyFrom who that is.
type Flow struct {
	// Protocol is empty for one without ports.
	Protocol            schema.Protocol
	Source, Destination netip.AddrPort
	ReplyFrom, ReplyTo  netip.AddrPort
}
