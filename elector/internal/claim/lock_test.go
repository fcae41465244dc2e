package claim

import "testing"

// newLock returns a lock that holds the control plane's Lease, as version 1.
func newLock(t *testing.T) *Lock {
	t.Helper()
	l := NewLock("n1", testTiming)
	l.Forget(boot)
	if _, ok := l.Next(boot); ok {
		t.Fatal("an update before it is wanted")
	}
	l.Want(boot, true)
	if u, ok := l.Next(boot); !ok || u != (LockUpdate{Holder: "n1"}) {
		t.Fatalf("first update %+v, %t", u, ok)
	}
	l.Committed(boot, 1)
	if l.Phase() != Owned || l.Grant() <= boot {
		t.Fatalf("%s with a grant until %v", l.Phase(), l.Grant())
	}
	return l
}

func TestLeaseTakenByHandEndsTheGrantAtOnce(t *testing.T) {
	l := newLock(t)
	l.Observe(boot+second, Record{Version: 2, Holder: "n2", Duration: 5 * second})
	if l.Phase() != Idle || l.Grant() != 0 {
		t.Errorf("%s with a grant until %v", l.Phase(), l.Grant())
	}
	if u, ok := l.Next(boot + 2*second); ok {
		t.Errorf("takes it back: %+v", u)
	}
}

func TestResumedLockIsKeptAndNotTakenWithoutAPlan(t *testing.T) {
	l := NewLock("n1", testTiming)
	l.Resume(boot, Ownership{Phase: Owned, Epoch: 1}, boot+second)
	l.Observe(boot, Record{Version: 1, Holder: "n1", Duration: 5 * second})
	if u, ok := l.Next(boot); !ok || u != (LockUpdate{Base: 1, Holder: "n1"}) {
		t.Fatalf("update %+v, %t", u, ok)
	}
	l.Failed(boot)
	l.Tick(boot + second)
	if l.Phase() != Idle {
		t.Fatalf("%s after the grant", l.Phase())
	}
	if u, ok := l.Next(boot + 20*second); ok {
		t.Errorf("takes a Lease that nobody wants: %+v", u)
	}
	l.Want(boot+20*second, true)
	if _, ok := l.Next(boot + 20*second); !ok {
		t.Error("does not take the Lease that is wanted")
	}
}

func TestWaitingLockLeavesItsLeaseAlone(t *testing.T) {
	l := newLock(t)
	l.Wait(boot, true)
	l.Want(boot, false)
	l.Silent(boot)
	if u, ok := l.Next(boot + second); ok {
		t.Errorf("update %+v", u)
	}
	if d := l.Deadline(boot + 3*second); d <= boot+3*second && l.Phase() == Idle {
		t.Error("a deadline for what it may not do")
	}
	l.Wait(boot+second, false)
	if _, ok := l.Next(boot + second); !ok {
		t.Error("no update after the wait")
	}
}
