package claim

import (
	"net/netip"
	"testing"
)

// twin is an event of this node's Lease as a twin wrote it.
func (b *bench) twin(ready bool, claims ...netip.Addr) {
	b.version++
	b.m.Observe(b.now, Lease{
		Node: "n1", Version: b.version, Duration: 5 * second, Ready: ready, Claims: claims, Foreign: true,
	})
}

func TestTwinsLeaseEndsTheGrantAndIsNotWrittenWhileItLives(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.twin(true, ip1)
	b.is(ip1, Idle)
	if b.m.Grant() != 0 {
		t.Errorf("the grant lasts until %v", b.m.Grant())
	}
	b.pass(4 * second)
	b.twin(true, ip1) // it renews
	b.pass(4 * second)
	if u, ok := b.m.Next(b.now); ok {
		t.Errorf("update %+v beside a live twin", u)
	}
	b.pass(second)
	if u := b.write(); len(u.Claims) > 0 {
		t.Errorf("the first update claims %v", u.Claims)
	}
	b.pass(spacing)
	b.write()
	b.is(ip1, Owned)
}

func TestTwinsClaimIsNotTakenForOurs(t *testing.T) {
	b := newBench(t)
	b.want(true, ip1)
	b.m.Probed(b.now, ip1, true)
	b.m.Tick(b.now)
	b.is(ip1, Claiming)
	b.twin(true, ip1)
	b.is(ip1, Idle)
}

func TestAnswerThatComesBehindATwinsUpdateGivesNoGrant(t *testing.T) {
	b := newBench(t)
	b.pass(second)
	if _, ok := b.m.Next(b.now); !ok {
		t.Fatal("no update is due")
	}
	b.version++
	answered := b.version
	b.twin(true)
	b.m.Committed(b.now, answered)
	if b.m.Grant() != 0 {
		t.Errorf("the grant lasts until %v", b.m.Grant())
	}
}

func TestLeaseOfATwinThatStoppedIsTakenAtOnce(t *testing.T) {
	b := newBench(t)
	b.pass(second)
	b.twin(false)
	b.write()
}

func TestLockIsTakenOnlyByTheMachineThatHasTheNodesLease(t *testing.T) {
	b := &bench{t: t, m: New("n1", testTiming), now: boot}
	l := NewLock("n1", testTiming)
	l.Observe(b.now, Record{Version: 1, Holder: "n1", Duration: 5 * second})
	l.Want(b.now, true)
	b.m.Relist(b.now, []Lease{{Node: "n1", Version: 2, Duration: 5 * second, Ready: true, Foreign: true}})
	b.version = 2
	b.m.Want(b.now, nil, true)
	quiet := func(why string) {
		t.Helper()
		l.Beside(b.now, b.m)
		if u, ok := l.Next(b.now); ok {
			t.Fatalf("update %+v although %s", u, why)
		}
	}
	quiet("a twin has the node's Lease")
	l.Want(b.now, false)
	quiet("it would release what is a twin's")
	l.Want(b.now, true)
	b.pass(5 * second)
	quiet("the node's Lease is not ours yet")
	l.Observe(b.now, Record{Version: 3, Holder: "n1", Duration: 5 * second}) // the twin's last renewal
	b.version = 3
	b.write()
	quiet("the twin's hold of the lock has not ended")
	for range 4 {
		b.pass(second)
		b.write()
	}
	b.pass(second)
	b.write()
	l.Beside(b.now, b.m)
	if u, ok := l.Next(b.now); !ok || u.Holder != "n1" {
		t.Fatalf("update %+v, %t", u, ok)
	}
}
