package trial

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/deploy/probe"
)

// The client of a lab: its role, and its interface on the LAN.
const (
	clientRole  = "client"
	clientIface = "eth0"
)

// Target is what a Watch asks a thousand times a second: an address by ICMP
// echo, and a UDP port of it where that is not 0.
type Target struct {
	IP      netip.Addr
	UDPPort uint16
}

// Watch looks at addresses from the client's side of the network.
type Watch struct {
	targets []Target
	capture *probe.Capture
	asker   *Asker
	probers []*probe.Prober
}

// Watch starts to ask the targets and to record who claims their addresses.
// It also asks everybody on the LAN who has them, so that a machine that would
// claim one does.
func (c *Cluster) Watch(targets ...Target) (*Watch, error) {
	w := &Watch{targets: targets}
	var addrs []netip.Addr
	for _, t := range targets {
		addrs = append(addrs, t.IP)
	}
	err := c.InNS(clientRole, func() (err error) {
		if w.capture, err = probe.Listen(clientIface); err != nil {
			return err
		}
		if w.asker, err = Ask(clientIface, addrs...); err != nil {
			return err
		}
		for _, t := range targets {
			if err := w.ask(probe.Options{Iface: clientIface, Target: t.IP}); err != nil {
				return err
			}
			if t.UDPPort == 0 {
				continue
			}
			if err := w.ask(probe.Options{Iface: clientIface, Target: t.IP, UDPPort: t.UDPPort}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.Stop()
		return nil, fmt.Errorf("watching from the client: %w", err)
	}
	return w, nil
}

func (w *Watch) ask(o probe.Options) error {
	p, err := probe.Start(o)
	if err != nil {
		return err
	}
	w.probers = append(w.probers, p)
	return nil
}

// Seen is what a Watch saw of one address.
type Seen struct {
	Target
	// ICMP and UDP are the questions and answers; UDP is empty without a port.
	ICMP, UDP probe.Result
	// Claims are the frames by which machines claimed the address, in order.
	Claims []probe.Frame
}

// Stop ends the watch and returns what it saw of each target.
func (w *Watch) Stop() []Seen {
	var results []probe.Result
	for _, p := range w.probers {
		results = append(results, p.Stop())
	}
	if w.asker != nil {
		w.asker.Stop()
	}
	var frames []probe.Frame
	if w.capture != nil {
		w.capture.Close()
		frames = w.capture.Frames()
	}
	var seen []Seen
	for _, t := range w.targets {
		s := Seen{Target: t}
		if len(results) > 0 {
			s.ICMP, results = results[0], results[1:]
		}
		if t.UDPPort != 0 && len(results) > 0 {
			s.UDP, results = results[0], results[1:]
		}
		for _, f := range frames {
			if f.IP != t.IP || !f.Claims() {
				continue
			}
			if f.Sender == (probe.MAC{}) && !f.Unsolicited {
				f.Sender = f.Source // an answer to one machine need not say it
			}
			s.Claims = append(s.Claims, f)
		}
		seen = append(seen, s)
	}
	return seen
}

// Claimants returns the MACs that claimed the address, in order of their
// first claim.
func (s Seen) Claimants() []probe.MAC {
	var macs []probe.MAC
	for _, f := range s.Claims {
		if !slices.Contains(macs, f.Sender) {
			macs = append(macs, f.Sender)
		}
	}
	return macs
}

// ErrTwoOwners is two machines that claimed an address in turns: after
// another had claimed it, the one before claimed it again.
var ErrTwoOwners = errors.New("two machines claim the address")

// Exclusive returns ErrTwoOwners unless the claims of each machine lie in one
// stretch: a move is one machine's stretch after another's, and a machine
// that claims again after its successor did is a second owner. An address may
// come back to a machine later, so moves says how often it may change hands.
func (s Seen) Exclusive(moves int) error {
	turns := s.turns()
	if len(turns) <= moves+1 {
		return nil
	}
	var text strings.Builder
	for _, turn := range turns {
		fmt.Fprintf(&text, "\n%4d times from %s\n         until %s", len(turn), turn[0], turn[len(turn)-1])
	}
	return fmt.Errorf("%s changed hands %d times, at most %d expected: %w%s",
		s.IP, len(turns)-1, moves, ErrTwoOwners, text.String())
}

// turns cuts the claims into stretches of one machine each.
func (s Seen) turns() [][]probe.Frame {
	var turns [][]probe.Frame
	for i, f := range s.Claims {
		if i == 0 || f.Sender != s.Claims[i-1].Sender {
			turns = append(turns, nil)
		}
		last := len(turns) - 1
		turns[last] = append(turns[last], f)
	}
	return turns
}

// ClaimsOf returns the claims of one machine after the given time.
func (s Seen) ClaimsOf(mac probe.MAC, after time.Time) []probe.Frame {
	var claims []probe.Frame
	for _, f := range s.Claims {
		if f.Sender == mac && f.Time.After(after) {
			claims = append(claims, f)
		}
	}
	return claims
}

// Outage returns the longest silence of the address towards the client, by
// any question.
func (s Seen) Outage() time.Duration { return max(s.ICMP.Gap, s.UDP.Gap) }
