// Package lease holds what the DHCP clients of both families have in common:
// leases, and the machine that gets and keeps them. Messages are the families'
// own, see Protocol.
package lease

import (
	"net/netip"
	"time"
)

// Lease is an address that a server lent. Times are on the clock that the
// client is told.
type Lease struct {
	IP netip.Addr
	// Bits is the length of the subnet's prefix.
	Bits int
	// Server identifies the server: its address, or its DUID in hex.
	Server string
	// ServerMAC is where the server's answers came from, "" if not known.
	ServerMAC string
	// Renew (T1), Rebind (T2) and Expire are when the client asks the server,
	// asks anybody, and stops using the address.
	Renew, Rebind, Expire time.Duration
}

// State is where a client is.
type State string

// States of a client, by the names of RFC 2131, figure 5.
const (
	Init       State = "init" // waiting to try again
	Selecting  State = "selecting"
	Requesting State = "requesting"
	Rebooting  State = "rebooting"
	Bound      State = "bound"
	Renewing   State = "renewing"
	Rebinding  State = "rebinding"
	// GivenUp: as often tried as was allowed.
	GivenUp State = "given-up"
)

// What else a client says, in no state of its own.
const (
	Releasing State = "releasing"
	Declining State = "declining"
)

// States are all of them.
var States = []State{Init, Selecting, Requesting, Rebooting, Bound, Renewing, Rebinding, GivenUp}

// Packet is a message to send.
type Packet struct {
	Payload []byte
	// From is the address to send from; without one it is the link's own of
	// IPv6, or none of IPv4.
	From netip.Addr
	// To and ToMAC are where to send it; without them to all servers.
	To    netip.Addr
	ToMAC string
}

// Counts are how often things happened.
type Counts struct {
	// Sent counts messages, Renewed and Rebound successes in these states,
	// Refused NAKs and refusals, Failed acquisitions that came to nothing,
	// Expired leases that ended.
	Sent, Renewed, Rebound, Refused, Failed, Expired, Malformed uint64
}

// Config says as whom a client asks for what.
type Config struct {
	// MAC is the link's, in the form of net.HardwareAddr; the client's
	// identity follows from it.
	MAC       string
	Hostname  string
	Broadcast bool
	// Requested is asked for first; may be invalid.
	Requested netip.Addr
	// Attempts is after how many failures to give up, 0 for never.
	Attempts int
	// Rand returns a random number; it names transactions and spreads waiting.
	Rand func() uint32
}

// Times of an acquisition. A LAN answers in milliseconds, so that the first
// repetition need not wait for the seconds of RFC 2131, 4.1.
const (
	// FirstRetry is the wait after the first message, which doubles.
	FirstRetry = 500 * time.Millisecond
	// FirstSearch is the same while a server is looked for.
	FirstSearch = 2 * time.Second
	// MinRetry and MaxRetry bound the wait between two acquisitions.
	MinRetry = time.Second
	MaxRetry = time.Minute
	// LeastRenewal is the least wait between two attempts to prolong a lease.
	LeastRenewal = time.Second
	// MostRenewal is the longest, so that a server that returns is found soon.
	MostRenewal = time.Minute
	// Declined is the wait after an address turned out to be taken (RFC 2131,
	// 3.1.5).
	Declined = 10 * time.Second
)

// Spread varies a wait by a tenth to each side.
func (c Config) Spread(wait time.Duration) time.Duration {
	return wait - wait/10 + time.Duration(uint64(c.Rand())%uint64(wait/5+1))
}

// Backoff is the wait between two acquisitions after so many failures.
func (c Config) Backoff(failures int) time.Duration {
	return c.Spread(min(MinRetry<<min(failures-1, 10), MaxRetry))
}

// Prolong is the wait for an answer while a lease lasts until end: half of
// what is left (RFC 2131, 4.4.5), within bounds.
func Prolong(now, end time.Duration) time.Duration {
	return min(max((end-now)/2, LeastRenewal), MostRenewal)
}
