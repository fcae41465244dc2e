package kube

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vipod/vipod/elector/internal/claim"
)

func TestSpoiltLeaseClaimsWhatItClaimedBefore(t *testing.T) {
	to := make(chan LeaseEvent, 10)
	s := &leaseSink{ctx: t.Context(), log: slog.New(slog.DiscardHandler), to: to, readable: map[string]NodeLease{}}
	l, err := encodeLease("kube-system", testIdentity, claim.Update{Base: 7, Ready: true, Claims: ips("203.0.113.10")}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	claims := func(want ...netip.Addr) {
		t.Helper()
		e := <-to
		if diff := cmp.Diff(want, e.Leases[0].Claims, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("claims (-want +got):\n%s", diff)
		}
		if e.Leases[0].Duration != 5*time.Second {
			t.Errorf("lasts %v", e.Leases[0].Duration)
		}
	}
	s.relisted([]runtime.Object{l})
	claims(ips("203.0.113.10")...)
	spoilt := l.DeepCopy()
	spoilt.ResourceVersion, spoilt.Annotations[AnnotationVIPs] = "8", "{"
	s.changed(spoilt)
	claims(ips("203.0.113.10")...)
	spoilt = spoilt.DeepCopy()
	spoilt.ResourceVersion, spoilt.Spec.LeaseDurationSeconds = "9", nil
	s.relisted([]runtime.Object{spoilt})
	claims(ips("203.0.113.10")...)
	s.relisted(nil)
	<-to
	spoilt.ResourceVersion = "10"
	s.changed(spoilt)
	if e := <-to; len(e.Leases[0].Claims) != 0 {
		t.Errorf("a Lease that was gone claims %v", e.Leases[0].Claims)
	}
}

func TestWatchDeliversAcrossObjectsInOrder(t *testing.T) {
	s, c := newServer(t)
	s.put(nodeLease(t, "n1"))
	events := follow(t, c, time.Minute)
	if got := next(t, events); got != "true false n1@101" {
		t.Fatal(got)
	}
	want := []string{}
	for i := range 200 { // an informer would join the events of one object
		node := "n" + string(rune('1'+i%3))
		s.put(nodeLease(t, node))
		want = append(want, fmt.Sprintf("false false %s@%d", node, 102+i))
	}
	s.remove("vipod-n2")
	want = append(want, "false true n2@302")
	for i, w := range want {
		if got := next(t, events); got != w {
			t.Fatalf("event %d: got %q, want %q", i, got, w)
		}
	}
}

func TestWatchGoesOnWhereItStoodOrListsAnew(t *testing.T) {
	s, c := newServer(t)
	events := follow(t, c, time.Minute)
	if got := next(t, events); got != "true false " {
		t.Fatal(got)
	}
	s.put(nodeLease(t, "n1"))
	if got := next(t, events); got != "false false n1@101" {
		t.Fatal(got)
	}
	s.http.CloseClientConnections()
	s.put(nodeLease(t, "n1"))
	if got := next(t, events); got != "false false n1@102" {
		t.Fatalf("after a lost connection: %s", got)
	}
	s.put(nodeLease(t, "n2"))
	if got := next(t, events); got != "false false n2@103" {
		t.Fatal(got)
	}
	s.mu.Lock()
	s.silent = true
	s.mu.Unlock()
	s.remove("vipod-n2")
	s.mu.Lock()
	s.silent = false
	s.mu.Unlock()
	s.compact()
	// Either the deletion came through before the cut, or the list shows it.
	switch got := next(t, events); got {
	case "true false n1@102":
	case "false true n2@104":
		s.put(nodeLease(t, "n1"))
	default:
		t.Fatalf("after compaction: %s", got)
	}
}

func TestSilentWatchIsStartedAnew(t *testing.T) {
	s, c := newServer(t)
	s.silent = true
	events := follow(t, c, 300*time.Millisecond)
	if got := next(t, events); got != "true false " {
		t.Fatal(got)
	}
	s.put(nodeLease(t, "n1"))
	s.mu.Lock()
	before := s.watches
	s.mu.Unlock()
	deadline := time.Now().Add(10 * time.Second)
	for {
		s.mu.Lock()
		watches, lists := s.watches, s.lists
		if watches > before {
			s.silent = false
		}
		s.mu.Unlock()
		if watches > before {
			if lists != 1 {
				t.Errorf("%d lists", lists)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not started anew")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got := next(t, events); got != "false false n1@101" {
		t.Fatal(got)
	}
}
