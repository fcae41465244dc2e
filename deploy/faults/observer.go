package faults

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

const (
	// clientRole is the machine that asks, iface its interface on the LAN.
	clientRole, lanRole, iface = "client", "lan", "eth0"
	// noted is from what length on a silence is noted: 20 questions.
	noted = 20 * time.Millisecond
	// stretch is the longest time between two claims of one stretch.
	stretch = 200 * time.Millisecond
)

// Observer looks at a lab from outside: at the port of every machine on the
// LAN it captures who claims what, so that frames count that reach nobody
// else; from the client it asks the addresses a thousand times a second; and
// it reads what the electors write.
type Observer struct {
	mu       sync.Mutex
	events   History
	captures map[string]*probe.Capture
	askers   []*trial.Asker
	probers  []prober
	files    *fileWatch
	// own are the addresses that machines have for themselves.
	own []netip.Addr
	// lost are the questions of each prober that were lost before the fault.
	lost []int
}

type prober struct {
	*probe.Prober
	addr netip.Addr
	kind string
}

// noise is what kind the questions at the router are.
const noise = "noise"

// Observe starts to look at the addresses. Those of udp are asked for by
// datagrams through kube-proxy too.
func Observe(l *lab.Lab, ports []string, addrs, udp []netip.Addr) (*Observer, error) {
	roles, err := l.Roles()
	if err != nil {
		return nil, fmt.Errorf("observing: %w", err)
	}
	o := &Observer{captures: map[string]*probe.Capture{}}
	for _, role := range roles {
		o.own = append(o.own, role.Addrs.Slice()...)
	}
	if o.files, err = watchFiles(l, o.note); err != nil {
		return nil, err
	}
	err = errors.Join(
		l.InNS(lanRole, func() error { return o.capture(ports, addrs) }),
		l.InNS(clientRole, func() error { return o.ask(addrs, udp) }),
	)
	if err != nil {
		o.Stop()
		return nil, fmt.Errorf("observing: %w", err)
	}
	for _, addr := range addrs {
		o.note(Event{Kind: Watched, Addr: addr})
	}
	return o, nil
}

// capture starts on every port, and asks the machine behind it: one that is
// cut off from all others is asked all the same.
func (o *Observer) capture(ports []string, addrs []netip.Addr) error {
	for _, port := range ports {
		c, err := probe.Listen(port)
		if err != nil {
			return err
		}
		o.captures[port] = c
		asker, err := trial.Ask(port, addrs...)
		if err != nil {
			return err
		}
		o.askers = append(o.askers, asker)
	}
	return nil
}

func (o *Observer) ask(addrs, udp []netip.Addr) error {
	// What becomes of questions at the router shows what the machine adds.
	p, err := probe.Start(probe.Options{Iface: iface, Target: lab.RouterAddrs().V4, Silence: noted})
	if err != nil {
		return err
	}
	o.probers = append(o.probers, prober{p, lab.RouterAddrs().V4, noise})
	for _, addr := range addrs {
		for kind, port := range map[string]uint16{"icmp": 0, "udp": lab.UDPPort} {
			if port != 0 && !slices.Contains(udp, addr) {
				continue
			}
			p, err := probe.Start(probe.Options{Iface: iface, Target: addr, UDPPort: port, Silence: noted})
			if err != nil {
				return err
			}
			o.probers = append(o.probers, prober{p, addr, kind})
		}
	}
	return nil
}

// note adds an event, of now if it has no time.
func (o *Observer) note(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// Begin lets lost questions count from now on.
func (o *Observer) Begin() {
	o.lost = nil
	for _, p := range o.probers {
		o.lost = append(o.lost, p.Result().Lost())
	}
}

// Answered returns an error that names what does not answer.
func (o *Observer) Answered(within time.Duration) error {
	for _, p := range o.probers {
		if !p.Answered(within) {
			return fmt.Errorf("%s does not answer %s", p.addr, p.kind)
		}
	}
	return nil
}

// Claimant returns who claimed an address last, "" for nobody.
func (o *Observer) Claimant(addr netip.Addr) (port string) {
	var last time.Time
	for name, c := range o.captures {
		claims := c.Claims(addr)
		if n := len(claims); n > 0 && claims[n-1].Time.After(last) {
			port, last = name, claims[n-1].Time
		}
	}
	return port
}

// Stop ends the observation and returns what was seen.
func (o *Observer) Stop() History {
	for i, p := range o.probers {
		r := p.Stop()
		if p.kind == noise {
			e := Event{At: r.GapStart, Until: r.GapStart.Add(r.Gap), Kind: Noise}
			if i < len(o.lost) {
				e.N = int64(max(0, r.Lost()-o.lost[i]))
			}
			o.note(e)
			continue
		}
		for _, s := range r.Silences {
			o.note(Event{At: s.From, Until: s.To, Kind: Silence, Addr: p.addr, Text: p.kind})
		}
		if i < len(o.lost) {
			o.note(Event{Kind: Lost, Addr: p.addr, N: int64(max(0, r.Lost()-o.lost[i])), Text: p.kind})
		}
	}
	for _, a := range o.askers {
		a.Stop()
	}
	var claims History
	for port, c := range o.captures {
		c.Close()
		for _, f := range c.Frames() {
			if f.Claims() && !slices.Contains(o.own, f.IP) {
				claims = append(claims, Event{
					At: f.Time, Until: f.Time, Kind: Claim, Node: port, Addr: f.IP, MAC: f.Source.String(), N: 1, Text: string(f.Kind),
				})
			}
		}
	}
	o.files.stop()
	o.note(Event{Kind: Step, Text: "observed until here"})
	h := append(o.events, stretches(claims)...)
	h.sort()
	return h
}

// stretches joins claims of one address that one machine makes in a row.
func stretches(claims History) (list History) {
	claims.sort()
	open := map[netip.Addr]int{}
	for _, c := range claims {
		i, ok := open[c.Addr]
		if ok && list[i].Node == c.Node && list[i].MAC == c.MAC && c.At.Sub(list[i].Until) < stretch {
			list[i].Until = c.At
			list[i].N++
			continue
		}
		open[c.Addr] = len(list)
		list = append(list, c)
	}
	return list
}
