package main

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/vipod/vipod/bgpd/internal/wire"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// hostile is a peer that says what a test wants, and notes what it is told.
type hostile struct {
	t        testing.TB
	told     *trigger.Trigger // for every UPDATE
	mu       sync.Mutex
	opens    [][]byte // what is said in place of an OPEN, one in each connection
	sessions int
	up       time.Time // of the last session
	// prefixes are those announced and not withdrawn, at the last change.
	prefixes map[string]bool
	changed  time.Time
	updates  int
	notified []string
}

// newHostile listens in the router's namespace. script is called with each
// session that is established, and reads nothing.
func newHostile(t testing.TB, r *rig, address string, script func(net.Conn)) *hostile {
	t.Helper()
	h := &hostile{t: t, told: trigger.New(), prefixes: map[string]bool{}}
	var l net.Listener
	r.check(r.peer.Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "179"))
		return err
	}))
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go h.talk(conn, script)
		}
	}()
	return h
}

// opening is a peer's OPEN and first KEEPALIVE.
func opening() []byte {
	o := wire.Open{
		AS: peerAS, Hold: 90, RouterID: netip.MustParseAddr(peer4), FourOctetAS: true, Refresh: true,
		Families: map[wire.Family]bool{wire.IPv4: true, wire.IPv6: true},
	}
	return append(o.Message(), wire.Keepalive()...)
}

// open is what the next connection is opened with.
func (h *hostile) open() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.opens) == 0 {
		return opening()
	}
	first := h.opens[0]
	h.opens = h.opens[1:]
	return first
}

func (h *hostile) talk(conn net.Conn, script func(net.Conn)) {
	defer conn.Close()
	buf := make([]byte, wire.MaxLen)
	established := false
	for {
		kind, body, err := wire.Read(conn, buf)
		if err != nil {
			return
		}
		switch kind {
		case wire.TypeOpen:
			_, _ = conn.Write(h.open()) // an error ends the reading
		case wire.TypeKeepalive:
			if !established {
				established = true
				h.mu.Lock()
				h.sessions++
				h.up = time.Now()
				h.mu.Unlock()
				go script(conn)
			}
		case wire.TypeNotification:
			h.mu.Lock()
			h.notified = append(h.notified, wire.ParseNotification(body).Error())
			h.mu.Unlock()
		case wire.TypeUpdate:
			h.take(body)
		}
	}
}

// take notes an UPDATE as GoBGP reads it.
func (h *hostile) take(body []byte) {
	u := &bgp.BGPUpdate{}
	if err := u.DecodeFromBytes(body); err != nil {
		h.t.Errorf("GoBGP refuses an UPDATE: %v", err)
		return
	}
	defer h.told.Fire()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = time.Now()
	h.updates++
	for _, p := range u.NLRI {
		h.prefixes[p.String()] = true
	}
	for _, p := range u.WithdrawnRoutes {
		delete(h.prefixes, p.String())
	}
}

func (h *hostile) count() (sessions, prefixes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions, len(h.prefixes)
}

// flood announces n prefixes as a peer with a large table does.
func flood(n int) []byte {
	var all bytes.Buffer
	w := wire.Writer{FourOctetAS: true}
	a := &wire.Attributes{Path: []uint32{peerAS, 64999}, NextHop: netip.MustParseAddr(peer4), Communities: []uint32{1, 2, 3}}
	var list []netip.Prefix
	ip := netip.MustParseAddr("10.0.0.0")
	for range n {
		list = append(list, netip.PrefixFrom(ip, 32))
		ip = ip.Next()
	}
	for part := range slices.Chunk(list, 700) {
		for _, m := range w.Announce(wire.IPv4, part, a) {
			all.Write(m)
		}
	}
	return all.Bytes()
}

// memory is what bgpd has in use, in KiB.
func (r *rig) memory() int {
	r.t.Helper()
	pid, err := r.Ask("/metrics")
	r.check(err)
	for line := range strings.Lines(pid) {
		if v, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			r.check(err)
			return int(n) / 1024
		}
	}
	r.t.Fatal("no metric of memory")
	return 0
}

func TestNetnsAFloodOfPrefixesTakesNoMemory(t *testing.T) {
	r := newRig(t, peerOf(peer4))
	sent := make(chan error, 1)
	data := flood(500_000)
	h := newHostile(t, r, peer4, func(conn net.Conn) {
		time.Sleep(500 * time.Millisecond)
		_, err := conn.Write(data)
		sent <- err
	})
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	before := r.memory()
	begin := time.Now()
	r.check(<-sent)
	took := time.Since(begin)
	after := r.memory()
	t.Logf("%d bytes of UPDATEs in %s, memory from %d to %d KiB", len(data), took, before, after)
	if after > before+8*1024 {
		t.Errorf("memory grew from %d to %d KiB", before, after)
	}
	r.vip("default.more", schema.StateActive, "203.0.113.8")
	r.announced("default.more", schema.True)
	if sessions, _ := h.count(); sessions != 1 {
		t.Errorf("%d sessions", sessions)
	}
}

func TestNetnsMalformedOpensAreContained(t *testing.T) {
	change := func(f func([]byte)) []byte {
		b := opening()
		f(b)
		return b
	}
	bad := [][]byte{
		make([]byte, 200),                              // no marker
		change(func(b []byte) { b[17] = 28 }),          // shorter than an OPEN can be
		change(func(b []byte) { b[19] = 3 }),           // version 3
		change(func(b []byte) { clear(b[24:28]) }),     // no identifier
		change(func(b []byte) { b[22], b[23] = 0, 1 }), // a hold time that is not allowed
		change(func(b []byte) { b[28] = 255 }),         // parameters longer than the message
		change(func(b []byte) { b[32] = 200 }),         // a capability longer than its parameter
		wire.Keepalive(),                               // none at all
	}
	r := newRig(t, peerOf(peer4), peerOf(peer6, func(p *schema.BGPPeer) { p.Name = "good" }))
	b := newBird(t, r.peer, session("n6", ""))
	h := newHostile(t, r, peer4, func(net.Conn) {})
	h.opens = bad
	r.vip("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
	r.Start()
	r.eventually("BIRD has its path", func() bool { return b.has("2001:db8:7::7/128") })
	since := b.ask("show protocols", "n6")
	left := func() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.opens) }
	r.eventually("all are said", func() bool { return left() == 0 })
	took := r.eventually("a good session follows", func() bool { _, n := h.count(); return n == 1 })
	t.Logf("%s after the last bad one", took)
	if now := b.ask("show protocols", "n6"); now != since {
		t.Errorf("another session was touched:\n%s", now)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.notified) < len(bad)-1 {
		t.Errorf("the peer was told %q", h.notified)
	}
}

func TestNetnsAPeerThatAsksForEverythingAgainAndAgainGetsItOnceASecond(t *testing.T) {
	refresh := append(bytes.Repeat([]byte{0xff}, 16), 0, 23, 5, 0, 1, 0, 1)
	r := newRig(t, peerOf(peer4, func(p *schema.BGPPeer) { p.HoldSeconds = 90 }))
	h := newHostile(t, r, peer4, func(conn net.Conn) {
		for range 200 {
			_, _ = conn.Write(bytes.Repeat(refresh, 100)) // an error is found by the other side
			time.Sleep(10 * time.Millisecond)
		}
	})
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	r.eventually("it is told again", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.updates >= 4 })
	time.Sleep(time.Second)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.updates > 20 || h.sessions != 1 {
		t.Errorf("%d UPDATEs in %d sessions", h.updates, h.sessions)
	}
}

func TestNetnsMalformedMessagesAreContained(t *testing.T) {
	marker := bytes.Repeat([]byte{0xff}, 16)
	for name, c := range map[string]struct {
		bytes []byte
		keeps bool // the session goes on
	}{
		"an UPDATE with attributes that make no sense": {append(append([]byte{}, marker...), 0, 30, 2, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), true},
		"a second OPEN":              {opening(), false},
		"a message of no type":       {append(append([]byte{}, marker...), 0, 19, 77), false},
		"a marker of zeros":          {make([]byte, 19), false},
		"a message that is too long": {append(append([]byte{}, marker...), 0xff, 0xff, 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, peerOf(peer4), peerOf(peer6, func(p *schema.BGPPeer) { p.Name = "good" }))
			b := newBird(t, r.peer, session("n6", ""))
			var once sync.Once
			h := newHostile(t, r, peer4, func(conn net.Conn) {
				once.Do(func() { time.Sleep(300 * time.Millisecond); _, _ = conn.Write(c.bytes) })
			})
			r.Start()
			r.vip("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
			r.announced("default.web", schema.True)
			r.eventually("BIRD has its path", func() bool { return b.has("2001:db8:7::7/128") })
			since := b.ask("show protocols", "n6")
			time.Sleep(400 * time.Millisecond)
			r.eventually("the path is told", func() bool { _, n := h.count(); return n == 1 })
			if !c.keeps {
				r.eventually("a new session follows", func() bool { n, _ := h.count(); return n > 1 })
			}
			if now := b.ask("show protocols", "n6"); now != since {
				t.Errorf("another session was touched:\n%s", now)
			}
		})
	}
}
