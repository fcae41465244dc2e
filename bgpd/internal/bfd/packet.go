package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// State is a session's, RFC 5880 section 4.1.
type State uint8

// States.
const (
	AdminDown State = 0
	Down      State = 1
	Init      State = 2
	Up        State = 3
)

func (s State) String() string {
	return [...]string{"administratively down", "down", "init", "up"}[s&3]
}

// Diag is why a session went down.
type Diag uint8

// Reasons, RFC 5880 section 4.1.
const (
	DiagNone      Diag = 0
	DiagExpired   Diag = 1 // nothing was heard for the detection time
	DiagSignaled  Diag = 3 // the peer said so
	DiagAdminDown Diag = 7 // somebody wants it so
)

func (d Diag) String() string {
	switch d {
	case DiagExpired:
		return "nothing was heard for the detection time"
	case DiagSignaled:
		return "the peer does not hear us"
	case DiagAdminDown:
		return "administratively down"
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

// Flags of a packet.
const (
	flagPoll   = 0x20
	flagFinal  = 0x10
	flagAuth   = 0x04
	flagDemand = 0x02
	flagMulti  = 0x01
)

const (
	version = 1
	size    = 24 // without authentication
)

// Packet is a control packet as far as this side has a use for it.
type Packet struct {
	State       State
	Diag        Diag
	Poll, Final bool
	// Demand: the sender wants no packets while the session is up.
	Demand     bool
	Multiplier uint8
	// Mine is the sender's discriminator, Yours the receiver's, 0 for not
	// known.
	Mine, Yours uint32
	// TX is the shortest time between two packets that the sender would like,
	// RX the shortest that it can take, 0 for none at all.
	TX, RX time.Duration
}

// Append appends the packet as it is on the wire.
func (p *Packet) Append(b []byte) []byte {
	flags := byte(p.State) << 6
	for flag, on := range map[byte]bool{flagPoll: p.Poll, flagFinal: p.Final, flagDemand: p.Demand} {
		if on {
			flags |= flag
		}
	}
	b = append(b, version<<5|byte(p.Diag)&0x1f, flags, p.Multiplier, size)
	for _, n := range []uint32{p.Mine, p.Yours, micros(p.TX), micros(p.RX), 0} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func micros(d time.Duration) uint32 { return uint32(min(d.Microseconds(), 1<<32-1)) }

// Parse reads a packet. An error is why it must be discarded, RFC 5880 section
// 6.8.6.
func Parse(b []byte) (Packet, error) {
	if len(b) < size {
		return Packet{}, fmt.Errorf("%d bytes are too few", len(b))
	}
	flags := b[1]
	word := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	p := Packet{
		State: State(flags >> 6), Diag: Diag(b[0] & 0x1f), Poll: flags&flagPoll != 0, Final: flags&flagFinal != 0,
		Demand: flags&flagDemand != 0, Multiplier: b[2], Mine: word(4), Yours: word(8),
		TX: time.Duration(word(12)) * time.Microsecond, RX: time.Duration(word(16)) * time.Microsecond,
	}
	switch {
	case b[0]>>5 != version:
		return Packet{}, fmt.Errorf("version %d is not %d", b[0]>>5, version)
	case b[3] < size || int(b[3]) > len(b):
		return Packet{}, fmt.Errorf("a length of %d in %d bytes", b[3], len(b))
	case p.Multiplier == 0:
		return Packet{}, errors.New("the multiplier is 0")
	case flags&flagMulti != 0:
		return Packet{}, errors.New("it is of a session with several ends")
	case flags&flagAuth != 0:
		return Packet{}, errors.New("it is authenticated, which is not agreed on")
	case p.Mine == 0:
		return Packet{}, errors.New("the sender's discriminator is 0")
	case p.Yours == 0 && p.State != Down && p.State != AdminDown:
		return Packet{}, fmt.Errorf("state %s without the receiver's discriminator", p.State)
	}
	return p, nil
}
