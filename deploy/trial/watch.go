package trial

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
	start   time.Time
	targets []Target
	capture *probe.Capture
	probers []*probe.Prober
}

// Watch starts to ask the targets and to record who claims their addresses.
func (c *Cluster) Watch(targets ...Target) (*Watch, error) {
	w := &Watch{start: time.Now(), targets: targets}
	err := c.InNS(clientRole, func() (err error) {
		if w.capture, err = probe.Listen(clientIface); err != nil {
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
			if f.IP == t.IP && f.Claims() {
				s.Claims = append(s.Claims, f)
			}
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

// Exclusive returns ErrTwoOwners unless every machine's claims of the address
// lie in one stretch. A move is one machine's stretch after another's; a
// machine that claims again after its successor did is a second owner. The
// address may come back to a machine later: moves is how often it may move.
func (s Seen) Exclusive(moves int) error {
	var last probe.MAC
	changes := -1
	for _, f := range s.Claims {
		if f.Sender != last {
			last = f.Sender
			changes++
		}
	}
	if changes <= moves {
		return nil
	}
	text := ""
	for _, f := range s.Claims {
		text += "\n" + f.String()
	}
	return fmt.Errorf("%s changed hands %d times, not %d: %w%s", s.IP, changes, moves, ErrTwoOwners, text)
}

// FirstClaim returns when a machine other than the given one first claimed
// the address after the given time.
func (s Seen) FirstClaim(after time.Time, not probe.MAC) (time.Time, bool) {
	for _, f := range s.Claims {
		if f.Time.After(after) && f.Sender != not {
			return f.Time, true
		}
	}
	return time.Time{}, false
}

// Outage returns the longest silence of the address towards the client, by
// any question.
func (s Seen) Outage() time.Duration { return max(s.ICMP.Gap, s.UDP.Gap) }
