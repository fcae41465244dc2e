package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

const (
	manyPaths  = 5000
	perVIP     = 50
	secondPeer = "198.51.100.3"
)

// many is a node with 5000 paths, in documents of 50 each, and two peers that
// have them.
type many struct {
	*rig
	peers [2]*hostile
	docs  []*schema.VIP
}

func newMany(t testing.TB) *many {
	t.Helper()
	patient := func(p *schema.BGPPeer) { p.HoldSeconds = 90 } // these peers say nothing
	m := &many{rig: newRig(t, peerOf(peer4, patient), peerOf(secondPeer, patient, func(p *schema.BGPPeer) { p.Name = "second" }))}
	m.peer.Add(t, "v1", secondPeer+"/24")
	for i, address := range []string{peer4, secondPeer} {
		m.peers[i] = newHostile(t, m.rig, address, func(net.Conn) {})
	}
	ip := netip.MustParseAddr("203.0.113.0")
	for n := range manyPaths / perVIP {
		var batch []string
		for range perVIP {
			batch, ip = append(batch, ip.String()), ip.Next()
		}
		m.docs = append(m.docs, m.vip(fmt.Sprintf("default.v%d", n), schema.StateActive, batch...))
	}
	m.Start()
	for i, h := range m.peers {
		m.await(h, manyPaths)
		h.mu.Lock()
		took := h.changed.Sub(h.up)
		h.mu.Unlock()
		t.Logf("peer %d: %d paths %s after Established", i+1, manyPaths, took)
	}
	return m
}

// await waits until a peer knows so many prefixes.
func (m *many) await(h *hostile, want int) {
	m.t.Helper()
	patience := time.After(20 * time.Second)
	for {
		if _, n := h.count(); n == want {
			return
		}
		select {
		case <-h.told.C():
		case <-patience:
			_, n := h.count()
			m.t.Fatalf("the peer knows %d prefixes, want %d", n, want)
		}
	}
}

// withdraw takes a document away, notes how long the first peer's UPDATE took,
// and puts it back.
func (m *many) withdraw(doc *schema.VIP) time.Duration {
	m.t.Helper()
	began := time.Now()
	m.DropVIP(doc.Key)
	m.await(m.peers[0], manyPaths-perVIP)
	took := time.Since(began)
	m.WriteVIP(doc)
	defer time.Sleep(60 * time.Millisecond) // reports are written meanwhile
	for _, h := range m.peers {
		m.await(h, manyPaths)
	}
	return took
}

func TestNetnsThousandsOfPathsAreToldAndEachIsWithdrawnByItself(t *testing.T) {
	m := newMany(t)
	for _, doc := range m.docs[:5] {
		m.withdraw(doc)
	}
	m.eventually("all reports say so", func() bool {
		for _, doc := range m.docs[:5] {
			if m.announced(doc.Key, schema.True).Message != "told to router, second" {
				return false
			}
		}
		return true
	})
}

// BenchmarkWithdrawal is from the removal of one document among a hundred, of
// 5000 paths in all, to the UPDATE at a peer.
func BenchmarkWithdrawal(b *testing.B) {
	m := newMany(b)
	var times []time.Duration
	for n := 0; b.Loop(); n++ {
		times = append(times, m.withdraw(m.docs[n%len(m.docs)]))
	}
	slices.Sort(times)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(times[(len(times)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}
