package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/yaml"

	"github.com/vipod/vipod/elector/internal/claim"
)

var update = flag.Bool("update", false, "write the golden files")

var testIdentity = Identity{
	Node: "n1", Writer: "boot-1/net:[1]", NodeUID: "uid-n1", Instance: "blue", Protocol: 248, Duration: 5 * time.Second,
	Acquired: time.Unix(1_700_000_000, 0).UTC(),
}

func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := "testdata/" + name + ".yaml"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", path, diff)
	}
}

func TestNodeLeaseAsItIsWritten(t *testing.T) {
	l, err := encodeLease("kube-system", testIdentity, claim.Update{
		Base: 7, Ready: true, Claims: ips("203.0.113.10", "2001:db8::10"),
	}, time.Unix(1_700_000_060, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "node-lease", l)
	got, ok := decodeLease(l)
	want := claim.Lease{Node: "n1", Version: 7, Duration: 5 * time.Second, Ready: true, Claims: ips("203.0.113.10", "2001:db8::10")}
	if diff := cmp.Diff(want, got.Lease, cmpopts.EquateComparable(netip.Addr{})); !ok || got.Problem != nil || diff != "" {
		t.Errorf("read back: %t, %v\n%s", ok, got.Problem, diff)
	}
}

func TestLeaseThatCannotBeReadIsNotReady(t *testing.T) {
	valid := func() *coordinationv1.Lease {
		l, err := encodeLease("kube-system", testIdentity, claim.Update{Base: 7, Ready: true, Claims: ips("203.0.113.10")}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tests := map[string]struct {
		change   func(*coordinationv1.Lease)
		ours, ok bool
	}{
		"valid":              {func(*coordinationv1.Lease) {}, true, true},
		"another name":       {func(l *coordinationv1.Lease) { l.Name = "kube-scheduler" }, false, false},
		"no label":           {func(l *coordinationv1.Lease) { l.Labels = nil }, false, false},
		"no node":            {func(l *coordinationv1.Lease) { l.Name = leasePrefix }, false, false},
		"bad annotation":     {func(l *coordinationv1.Lease) { l.Annotations[AnnotationVIPs] = "{" }, true, false},
		"no duration":        {func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }, true, false},
		"negative duration":  {func(l *coordinationv1.Lease) { *l.Spec.LeaseDurationSeconds = -1 }, true, false},
		"duration of a year": {func(l *coordinationv1.Lease) { *l.Spec.LeaseDurationSeconds = 31_536_000 }, true, false},
		"version":            {func(l *coordinationv1.Lease) { l.ResourceVersion = "0x7" }, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := valid()
			test.change(l)
			got, ours := decodeLease(l)
			if ours != test.ours {
				t.Fatalf("taken for ours: %t", ours)
			}
			if ours && (got.Problem == nil) != test.ok {
				t.Errorf("problem %v", got.Problem)
			}
			if !test.ok && (len(got.Claims) > 0 || got.Ready) {
				t.Errorf("claims %v, ready %t", got.Claims, got.Ready)
			}
		})
	}
}

func TestWritesAreComparedWithWhatTheyAreBasedOn(t *testing.T) {
	s, c := newServer(t)
	ctx := t.Context()
	write := func(base uint64) (uint64, error) {
		return c.WriteLease(ctx, "kube-system", testIdentity, claim.Update{Base: base})
	}
	v1, err := write(0)
	if err != nil {
		t.Fatal(err)
	}
	v2, err := write(v1)
	if err != nil || v2 <= v1 {
		t.Fatalf("version %d after %d, %v", v2, v1, err)
	}
	for name, base := range map[string]uint64{"create what is there": 0, "late update": v1, "never existed": 5} {
		if _, err := write(base); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := c.ReadLease(ctx, "kube-system", testIdentity); err != nil || got != v2 {
		t.Errorf("read version %d, %v, want %d", got, err, v2)
	}
	s.remove("vipod-n1")
	if got, err := c.ReadLease(ctx, "kube-system", testIdentity); err != nil || got != 0 {
		t.Errorf("read version %d of nothing, %v", got, err)
	}
	if _, err := write(v2); !errors.Is(err, ErrConflict) {
		t.Errorf("update of nothing: %v", err)
	}
}

func TestUnansweredOrRefusedWriteIsNoConflict(t *testing.T) {
	s, c := newServer(t)
	write := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := c.WriteLease(ctx, "kube-system", testIdentity, claim.Update{})
		return err
	}
	for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusForbidden} {
		s.mu.Lock()
		s.answer = func(*http.Request) int { return code }
		s.mu.Unlock()
		if err := write(); err == nil || errors.Is(err, ErrConflict) {
			t.Errorf("answer %d: %v", code, err)
		}
	}
	s.mu.Lock()
	s.answer, s.hang = nil, true
	s.mu.Unlock()
	if err := write(); err == nil || errors.Is(err, ErrConflict) {
		t.Errorf("no answer: %v", err)
	}
	s.mu.Lock()
	s.hang = false
	s.mu.Unlock()
	if err := write(); err != nil {
		t.Errorf("after the silence: %v", err)
	}
}

func TestLockFollowsTheRulesOfLeaderElection(t *testing.T) {
	s, c := newServer(t)
	lock := c.Lock("kube-system", "plndr-cp-lock", testIdentity, ips("203.0.113.5"))
	other := c.Lock("kube-system", "plndr-cp-lock", Identity{Node: "n2", Duration: 15 * time.Second}, nil)
	ctx := t.Context()
	v1, err := lock.Write(ctx, claim.LockUpdate{Holder: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock() // a person's annotation survives what we write
	l := s.objects["plndr-cp-lock"].DeepCopy()
	l.Annotations["example.com/note"] = "kept"
	s.store(l)
	s.mu.Unlock()
	if _, err := lock.Write(ctx, claim.LockUpdate{Base: v1, Holder: "n1"}); !errors.Is(err, ErrConflict) {
		t.Fatalf("late write: %v", err)
	}
	r, ok, err := lock.Read(ctx)
	if err != nil || !ok || r.Holder != "n1" || r.Duration != 5*time.Second {
		t.Fatalf("read %+v, %t, %v", r, ok, err)
	}
	v3, err := lock.Write(ctx, claim.LockUpdate{Base: r.Version, Holder: ""})
	if err != nil {
		t.Fatal(err)
	}
	got := s.objects["plndr-cp-lock"]
	if *got.Spec.HolderIdentity != "" || *got.Spec.LeaseDurationSeconds != 1 || got.Annotations["example.com/note"] != "kept" ||
		got.Annotations[AnnotationVIPs] != "" {
		t.Errorf("released: %+v %v", got.Spec, got.Annotations)
	}
	if _, _, err := other.Read(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Write(ctx, claim.LockUpdate{Base: v3, Holder: "n2"}); err != nil {
		t.Fatal(err)
	}
	if got := s.objects["plndr-cp-lock"].Spec; *got.LeaseTransitions != 1 || *got.LeaseDurationSeconds != 15 {
		t.Errorf("transitions %d, duration %d", *got.LeaseTransitions, *got.LeaseDurationSeconds)
	}
}

// follow starts a watch and returns where its events arrive.
func follow(t *testing.T, c *Client, stall time.Duration) <-chan LeaseEvent {
	t.Helper()
	events := make(chan LeaseEvent, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.WatchLeases(ctx, "kube-system", stall, events); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return events
}

func next(t *testing.T, events <-chan LeaseEvent) string {
	t.Helper()
	select {
	case e := <-events:
		var names []string
		for _, l := range e.Leases {
			names = append(names, fmt.Sprintf("%s@%d", l.Node, l.Version))
		}
		return fmt.Sprintf("%t %t %s", e.Relist, e.Deleted, strings.Join(names, " "))
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	return ""
}

func nodeLease(t *testing.T, node string) *coordinationv1.Lease {
	t.Helper()
	id := testIdentity
	id.Node = node
	l, err := encodeLease("kube-system", id, claim.Update{Ready: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEventTextIsSafeAndShort(t *testing.T) {
	got := cut("a\x00b\x1b[31m\n"+strings.Repeat("é", 2000), maxMessage)
	if len(got) > maxMessage || strings.ContainsAny(got, "\x00\x1b\n") || !strings.HasPrefix(got, "a b [31m ") {
		t.Errorf("%d bytes: %q", len(got), got[:20])
	}
}

func TestDescribeNamesVerbAndResource(t *testing.T) {
	tests := map[string][2]string{
		"GET /api/v1/services?watch=1":                                            {"watch", "services"},
		"GET /api/v1/services":                                                    {"list", "services"},
		"PATCH /api/v1/namespaces/default/services/web/status":                    {"patch", "services/status"},
		"PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vipod-n1": {"update", "leases"},
		"POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases":         {"create", "leases"},
		"GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vipod-n1": {"get", "leases"},
		"GET /livez": {"get", "other"},
	}
	for line, want := range tests {
		method, url, _ := strings.Cut(line, " ")
		r, err := http.NewRequest(method, "http://api"+url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if verb, resource := describe(r); verb != want[0] || resource != want[1] {
			t.Errorf("%s: %s %s", line, verb, resource)
		}
	}
}
