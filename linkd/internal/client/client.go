// Package client runs the DHCP machine of one family on one link: it gives it
// the clock and a packet socket.
package client

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/vipod/vipod/linkd/internal/dhcp4"
	"github.com/vipod/vipod/linkd/internal/dhcp6"
	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/linkd/internal/wire"
	"github.com/vipod/vipod/shared/bootclock"
)

// Port is where a client's link is now.
type Port struct {
	Index int
	// Parent is the index of the link that it is on top of. The kernel answers
	// ARP requests for an address on any of its links, so that a server's
	// unicast answer may arrive there.
	Parent int
	// LinkLocal is the link's own address of IPv6.
	LinkLocal netip.Addr
}

// Options are what a client works with.
type Options struct {
	lease.Config
	Log  *slog.Logger
	Is4  bool
	Port Port
	// Resume is a lease of an earlier process, nil for none.
	Resume *lease.Lease
	// Changed is called when the lease or the state changed. It must not block.
	Changed func()
}

// Status is what a client has and does.
type Status struct {
	Lease lease.Lease
	// Held says that Lease is one.
	Held   bool
	State  lease.State
	Counts lease.Counts
}

// Client is one client at work.
type Client struct {
	Options
	machine *lease.Machine
	calls   chan func()
	cancel  context.CancelFunc
	done    chan struct{}
	socket  *wire.Socket
	// aside is the socket on the parent, which only listens.
	aside   *wire.Socket
	heard   chan heard
	failing bool

	mu     sync.Mutex
	status Status
}

type heard struct {
	payload []byte
	from    string
}

// Start starts a client, which works until it is stopped.
func Start(o Options) *Client {
	if o.Rand == nil {
		o.Rand = rand.Uint32
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		Options: o, calls: make(chan func()), cancel: cancel, done: make(chan struct{}), heard: make(chan heard, 16),
	}
	if o.Is4 {
		c.machine = dhcp4.New(o.Config)
	} else {
		c.machine = dhcp6.New(o.Config)
	}
	c.open()
	now := bootclock.Now()
	if o.Resume != nil {
		c.machine.Resume(now, *o.Resume)
	} else {
		c.machine.Start(now)
	}
	c.flush()
	go c.run(ctx)
	return c
}

// Status returns what the client has and does.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Move follows the link to another index or address; the lease stays.
func (c *Client) Move(p Port) {
	c.call(func() {
		if c.Port == p {
			return
		}
		c.Port = p
		c.open()
	})
}

// Decline gives an address back that another host has.
func (c *Client) Decline(ip netip.Addr) {
	c.call(func() { c.machine.Decline(bootclock.Now(), ip) })
}

// Release gives the lease back and ends the client.
func (c *Client) Release() {
	c.call(func() { c.machine.Release(bootclock.Now()) })
	c.Stop()
}

// Stop ends the client without a word to the server.
func (c *Client) Stop() {
	c.cancel()
	<-c.done
}

// call has the client's loop call f.
func (c *Client) call(f func()) {
	called := make(chan struct{})
	select {
	case c.calls <- func() { f(); close(called) }:
		<-called
	case <-c.done:
	}
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	defer c.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(c.wait())
		select {
		case <-ctx.Done():
			return
		case f := <-c.calls:
			f()
		case h := <-c.heard:
			c.machine.Receive(bootclock.Now(), h.payload, h.from)
		case <-timer.C:
			if c.socket == nil {
				c.open()
			}
			c.machine.Tick(bootclock.Now())
		}
		c.flush()
	}
}

const (
	// longest is the longest sleep; the clock of leases goes on while the
	// machine is suspended, timers do not.
	longest = 30 * time.Second
	// reopen is when a socket that could not be opened is tried again.
	reopen = time.Second
)

func (c *Client) wait() time.Duration {
	wait := min(max(c.machine.Deadline()-bootclock.Now(), 0), longest)
	if c.socket == nil {
		return min(wait, reopen)
	}
	return wait
}

// flush sends what the machine has to say and publishes what it has.
func (c *Client) flush() {
	for _, p := range c.machine.Take() {
		c.send(p)
	}
	s := Status{State: c.machine.State(), Counts: c.machine.Counts()}
	s.Lease, s.Held = c.machine.Lease()
	c.mu.Lock()
	before := c.status
	c.status = s
	c.mu.Unlock()
	if before.Lease != s.Lease || before.Held != s.Held || before.State != s.State {
		c.log(before, s)
		c.Changed()
	}
}

// log logs what became of the lease, once for each change of its address.
func (c *Client) log(before, after Status) {
	switch {
	case after.Held && (!before.Held || before.Lease.IP != after.Lease.IP):
		c.Log.Info("address leased", "addr", after.Lease.IP, "server", after.Lease.Server,
			"seconds", int64((after.Lease.Expire-bootclock.Now())/time.Second))
	case before.Held && !after.Held:
		c.Log.Warn("lease lost", "addr", before.Lease.IP, "state", after.State)
	case after.State != before.State:
		c.Log.Debug("DHCP", "state", after.State)
	}
}

// send sends one message. A failure is that of a datagram that was lost: the
// machine sends again; of a series the first is logged.
func (c *Client) send(p lease.Packet) {
	err := errNotOpen
	if c.socket != nil {
		c.socket.From = c.Port.LinkLocal
		err = c.socket.Send(p)
	}
	if err != nil && !c.failing {
		c.Log.Warn("cannot send to DHCP servers", "err", err)
	}
	c.failing = err != nil
}

var errNotOpen = errors.New("the packet socket is not open")

// open opens the socket where the link is now.
func (c *Client) open() {
	c.close()
	s, err := wire.Open(c.Port.Index, c.Is4, c.MAC)
	if err != nil {
		if !c.failing {
			c.Log.Warn("cannot listen to DHCP servers", "err", err)
		}
		c.failing = true
		return
	}
	c.socket = s
	go c.listen(s)
	if !c.Is4 || c.Port.Parent == 0 {
		return
	}
	if c.aside, err = wire.Open(c.Port.Parent, c.Is4, c.MAC); err != nil {
		c.aside = nil
		c.Log.Warn("cannot listen on the parent link", "err", err)
		return
	}
	go c.listen(c.aside)
}

func (c *Client) close() {
	for _, s := range []**wire.Socket{&c.socket, &c.aside} {
		if *s != nil {
			_ = (*s).Close() // nothing is buffered in it
			*s = nil
		}
	}
}

// pause keeps a link that is down from being read in a circle.
const pause = 100 * time.Millisecond

// listen hands on what the socket hears until it is closed.
func (c *Client) listen(s *wire.Socket) {
	for {
		payload, from, err := s.Receive()
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			time.Sleep(pause)
			continue
		}
		select {
		case c.heard <- heard{payload, from}:
		case <-c.done:
			return
		}
	}
}
