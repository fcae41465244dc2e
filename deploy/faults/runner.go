package faults

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
)

const (
	// settle is how long is looked before a fault, after it, and at the end.
	settle = 500 * time.Millisecond
	// ready is how long a Service may take to come up, and everything to be
	// whole again after a fault; mended is that of a node that must first hear
	// that its claims have ended.
	ready = 20 * time.Second
	// clean is how long a deleted Service may take to leave.
	clean = 10 * time.Second
	// leaseRate and recoverRate are how many requests a second the API server
	// may get at rest, and while something is repaired.
	leaseRate, recoverRate = 4.0, 8.0
)

// Case is one fault.
type Case struct {
	Name string
	// Faulty says which nodes the fault hits; the owner if nil.
	Faulty func(*World) []string
	// Fault does it; what it sets up and After undoes ends the fault.
	Fault func(context.Context, *World) error
	// Hold is how long the fault lasts after Fault has returned.
	Hold time.Duration
	Want Expectation
	// Policy and Pods are the Service's; a pod that the fault does not hit if
	// nil.
	Policy corev1.ServiceExternalTrafficPolicy
	Pods   []string
	// Settle is how long is looked on when everything is whole again.
	Settle time.Duration
	// Long is a case of the full form only.
	Long bool
}

// Result is what became of a case.
type Result struct {
	Case     Case
	Measured time.Duration
	Rate     float64
	// Lost are the ICMP questions lost, of the worst address; Noise those at an
	// address that no fault is about, and Stall the longest silence of it.
	Lost, Noise int64
	Stall       time.Duration
	// Moved says whether an address changed hands.
	Moved      bool
	Violations []Violation
	// Err is why the case could not be run to its end.
	Err error
	// File is where the history is.
	File string
}

// Verdict is "ok", "WRONG", "FAILED", or "not taken" for a step.
func (r Result) Verdict() string {
	switch {
	case errors.Is(r.Err, errNotReached):
		return "not taken"
	case r.Err != nil:
		return "FAILED"
	case len(r.Violations) > 0:
		return "WRONG"
	}
	return "ok"
}

// Timed says whether nothing is wrong but times, or the case could not be run
// to its end.
func (r Result) Timed() bool {
	return !slices.ContainsFunc(r.Violations, func(v Violation) bool { return !v.Timed })
}

// Run runs one case and judges it. The history is kept in dir.
func (w *World) Run(ctx context.Context, c Case, dir string) Result {
	r := Result{Case: c, File: filepath.Join(dir, fileName(c.Name)+".jsonl")}
	h, err := w.history(ctx, c)
	r.Err = errors.Join(err, save(h, r.File))
	r.Violations = Check(h, c.Want)
	r.Measured = measured(h, c.Want)
	for _, e := range h.of(Lost) {
		if e.Text == "icmp" {
			r.Lost = max(r.Lost, e.N)
		}
	}
	for _, e := range h.of(Noise) {
		r.Noise, r.Stall = e.N, e.Until.Sub(e.At)
	}
	for _, e := range h.of(Requests) {
		r.Rate = Rate(e)
	}
	for _, addr := range h.addrs(Watched) {
		if _, ok := newSight(h, addr).successor(); ok {
			r.Moved = true
		}
	}
	return r
}

func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r) {
			return r
		}
		return '-'
	}, name)
}

func save(h History, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keeping a history: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keeping a history: %w", err)
	}
	return errors.Join(h.Write(file), file.Close())
}

// history does the fault and returns what was seen.
func (w *World) history(ctx context.Context, c Case) (h History, err error) {
	if err := w.AwaitReady(ctx, w.Nodes()...); err != nil {
		return nil, err
	}
	before, err := w.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.serve(ctx, c); err != nil {
		return nil, errors.Join(err, w.remove(ctx))
	}
	w.Observer, err = Observe(w.Lab, w.ports, w.watched(), w.VIP.Slice())
	if err != nil {
		return nil, errors.Join(err, w.remove(ctx))
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			h = append(h, w.Observer.Stop()...)
		}
	}
	defer stop()
	if err := w.suffer(ctx, c); err != nil {
		return h, errors.Join(err, w.mend(ctx), w.remove(ctx))
	}
	stop()
	return h, errors.Join(w.remove(ctx), w.compare(ctx, before, &h))
}

// serve brings the Service up.
func (w *World) serve(ctx context.Context, c Case) error {
	pods := c.Pods
	if pods == nil {
		pods = []string{"p1"}
	}
	_, err := w.CreateService(ctx, lab.ServiceSpec{Name: w.Service, VIPs: w.VIP.Slice(), Pods: pods, Policy: c.Policy})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	if w.Owner, err = w.AwaitOwner(ctx, w.Service, ""); err != nil {
		return err
	}
	if c.Pods == nil {
		if err := w.SetEndpoints(ctx, w.Service, w.safePod(c)); err != nil {
			return err
		}
	}
	for _, addr := range w.VIP.Slice() { // kube-proxy has to know it too
		if _, err := w.AwaitAnswer(ctx, netip.AddrPortFrom(addr, 80)); err != nil {
			return err
		}
	}
	return pause(ctx, settle) // on every node
}

// safePod is a pod on a node that the fault does not hit, since nobody takes
// endpoints away whose node is cut off.
func (w *World) safePod(c Case) string {
	faulty := c.faulty(w)
	for _, node := range w.Nodes() {
		if !slices.Contains(faulty, node) {
			return podOf(node)
		}
	}
	return podOf(w.Owner)
}

// podOf returns the name of the pod that every node has.
func podOf(node string) string { return "p" + strings.TrimPrefix(node, "n") }

// faulty are the nodes that the fault hits.
func (c Case) faulty(w *World) []string {
	if c.Faulty != nil {
		return c.Faulty(w)
	}
	return []string{w.Owner}
}

// suffer does the fault, from a time when everything is whole to the next.
func (w *World) suffer(ctx context.Context, c Case) error {
	if err := w.await(ctx, ready, "everything is whole before", func() error { return w.whole(ctx) }); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	before, err := w.requests(ctx)
	if err != nil {
		return err
	}
	w.Observer.Begin()
	for _, node := range c.faulty(w) {
		w.Observer.note(Event{Kind: Begin, Node: node, Text: c.Name})
	}
	if err := c.Fault(ctx, w); err != nil {
		return fmt.Errorf("doing the fault: %w", err)
	}
	if err := w.hold(ctx, c.Hold); err != nil {
		return err
	}
	w.Observer.note(Event{Kind: End})
	if err := w.mend(ctx); err != nil {
		return err
	}
	if err := w.await(ctx, ready+c.Want.Bound, "everything is whole again", func() error { return w.whole(ctx) }); err != nil {
		return err
	}
	w.Step("whole again")
	if err := w.hold(ctx, max(settle, c.Settle)); err != nil {
		return err
	}
	return w.noteRequests(ctx, before)
}

// hold waits, and starts daemons again that have ended.
func (w *World) hold(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := errors.Join(w.supervise(ctx), pause(ctx, min(poll, time.Until(end)))); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the Service.
func (w *World) remove(ctx context.Context) error {
	return w.await(ctx, clean, "the Service is deleted", func() error { return w.DeleteService(ctx, w.Service) })
}

// compare notes what is not as it was before the Service, once that had time
// to leave.
func (w *World) compare(ctx context.Context, before snapshot, h *History) error {
	var list []string
	for end := time.Now().Add(clean); ; {
		after, err := w.take(ctx)
		if err != nil {
			return err
		}
		if list = before.differences(after); len(list) == 0 || time.Now().After(end) {
			break
		}
		if err := pause(ctx, 5*poll); err != nil {
			return err
		}
	}
	for _, text := range list {
		*h = append(*h, Event{At: time.Now(), Kind: Differs, Text: text})
	}
	return nil
}

// Table returns the results, a line each, and below it what was wrong.
func Table(results []Result) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%-52s %-7s %9s %9s %-6s %6s %14s %s\n", "case", "right", "bound", "measured", "seen", "req/s", "noise", "verdict")
	for _, r := range results {
		seen := "stayed"
		if r.Moved {
			seen = "moved"
		}
		fmt.Fprintf(&text, "%-52s %-7s %9s %9s %-6s %6.1f %14s %s\n", r.Case.Name, r.Case.Want.Outcome, bound(r.Case.Want),
			r.measured(), seen, r.Rate, fmt.Sprintf("%d lost, %dms", r.Noise, r.Stall.Milliseconds()), r.Verdict())
	}
	for _, r := range slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Verdict() == "ok" || r.Verdict() == "not taken" }) {
		fmt.Fprintf(&text, "\n%s (%s):\n", r.Case.Name, r.File)
		if r.Err != nil {
			fmt.Fprintf(&text, "    %v\n", r.Err)
		}
		for _, v := range r.Violations {
			fmt.Fprintf(&text, "    %s\n", v)
		}
	}
	return text.String()
}

// measured is the number to be held against the bound.
func (r Result) measured() string {
	if r.Case.Want.Outcome == Stays && r.Case.Want.Bound == 0 {
		return fmt.Sprintf("%d lost", r.Lost)
	}
	return r.Measured.Round(time.Millisecond).String()
}

func bound(e Expectation) string {
	if e.Bound == 0 {
		return fmt.Sprintf("%d lost", e.Lost)
	}
	return e.Bound.String()
}
