package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/schema"
)

// Report is the answer to /status. Durations are in seconds.
type Report struct {
	Node      string             `json:"node"`
	Synced    bool               `json:"synced"`
	Ready     bool               `json:"ready"`
	Reason    string             `json:"reason,omitempty"`  // why not ready
	Problem   string             `json:"problem,omitempty"` // why the last write of this node's Lease failed
	Suspended bool               `json:"suspended,omitempty"`
	Stopping  bool               `json:"stopping,omitempty"`
	Grants    map[string]float64 `json:"grants"` // remaining
	Leases    []LeaseReport      `json:"leases"`
	VIPs      []VIPReport        `json:"vips"`
	Refusals  []RefusalReport    `json:"refusals,omitempty"`
}

// LeaseReport is a node's Lease as seen from here.
type LeaseReport struct {
	Node    string  `json:"node"`
	Live    bool    `json:"live"`
	Ready   bool    `json:"ready"`
	Claims  int     `json:"claims"`
	Age     float64 `json:"age"` // since it was seen to change
	Problem string  `json:"problem,omitempty"`
}

// VIPReport is one VIP.
type VIPReport struct {
	Key       string          `json:"key"`
	State     schema.State    `json:"state,omitempty"` // of the document on this node
	Present   bool            `json:"present,omitempty"`
	Eligible  bool            `json:"eligible"`
	Why       string          `json:"why,omitempty"` // not eligible
	Addresses []AddressReport `json:"addresses"`
}

// AddressReport is one address of a VIP.
type AddressReport struct {
	IP        netip.Addr `json:"ip"`
	Interface string     `json:"interface,omitempty"`
	Owner     string     `json:"owner,omitempty"` // node
	Phase     string     `json:"phase"`           // on this node
	Epoch     uint64     `json:"epoch,omitempty"`
}

// RefusalReport is something that a Service does not get.
type RefusalReport struct {
	Service string `json:"service"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ErrStuck is a loop that does not answer.
var ErrStuck = errors.New("the loop does not answer")

// ask has the loop call f between two passes.
func (r *Reconciler) ask(ctx context.Context, f func()) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	done := make(chan struct{})
	select {
	case r.calls <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ErrStuck
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ErrStuck
	}
}

// Healthz returns nil when the loop answers.
func (r *Reconciler) Healthz(ctx context.Context) error { return r.ask(ctx, func() {}) }

// Report returns what elector knows and does.
func (r *Reconciler) Report(ctx context.Context) (report Report, err error) {
	err = r.ask(ctx, func() { report = r.report(bootclock.Now()) })
	return report, err
}

func (r *Reconciler) report(now time.Duration) Report {
	out := Report{
		Node: r.Config.NodeName, Synced: r.synced, Ready: r.wished.ready, Reason: r.notReady, Problem: r.leaseErr,
		Suspended: r.wished.suspended, Stopping: r.stopping.since != 0, Leases: []LeaseReport{}, VIPs: []VIPReport{},
		Grants: map[string]float64{string(schema.GrantNode): max(r.machine.Grant()-now, 0).Seconds()},
	}
	for _, l := range r.machine.Leases(now) {
		lr := LeaseReport{Node: l.Node, Live: l.Live, Ready: l.Ready, Claims: len(l.Claims), Age: l.Age.Seconds()}
		if err := r.spoilt[l.Node]; err != nil {
			lr.Problem = err.Error()
		}
		out.Leases = append(out.Leases, lr)
	}
	if cp := r.out.ControlPlane; cp != nil && r.lock != nil {
		out.Grants[string(schema.GrantControlPlane)] = max(r.lock.Grant()-now, 0).Seconds()
		vip := r.vipReport(*cp)
		for _, a := range cp.Addresses {
			vip.Addresses = append(vip.Addresses, AddressReport{
				IP: a.IP, Interface: a.Interface, Owner: r.lock.Holder(now), Phase: r.lock.Phase().String(), Epoch: r.lock.Epoch(),
			})
		}
		out.VIPs = append(out.VIPs, vip)
	}
	for _, v := range r.out.VIPs {
		vip := r.vipReport(v)
		for _, a := range v.Addresses {
			o := r.machine.State(a.IP)
			vip.Addresses = append(vip.Addresses, AddressReport{
				IP: a.IP, Interface: a.Interface, Owner: r.machine.Holder(now, a.IP), Phase: o.Phase.String(), Epoch: o.Epoch,
			})
		}
		vip.Addresses = append(vip.Addresses, r.tokenReport(now, v)...)
		out.VIPs = append(out.VIPs, vip)
	}
	for _, f := range r.out.Refusals {
		out.Refusals = append(out.Refusals, RefusalReport{f.Namespace + "/" + f.Name, f.Reason, f.Message})
	}
	return out
}

func (r *Reconciler) vipReport(v plan.VIP) VIPReport {
	doc := r.book.VIP(v.Key)
	vip := VIPReport{Key: v.Key, Present: r.serves(doc), Eligible: v.Eligible, Why: v.Why, Addresses: []AddressReport{}}
	if doc != nil {
		vip.State = doc.State
	}
	return vip
}

// Print writes the report as a table for people.
func (r Report) Print(out io.Writer) error {
	ready := "ready"
	if !r.Ready {
		ready = "not ready: " + orDash(r.Reason)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "node %s, %s\n", r.Node, ready)
	if r.Problem != "" {
		fmt.Fprintf(w, "the Lease cannot be renewed: %s\n", r.Problem)
	}
	for _, name := range []schema.GrantName{schema.GrantNode, schema.GrantControlPlane} {
		if left, ok := r.Grants[string(name)]; ok {
			fmt.Fprintf(w, "grant %s: %.1f s left\n", name, left)
		}
	}
	fmt.Fprint(w, "\nNODE\tLIVE\tREADY\tCLAIMS\tSEEN\tPROBLEM\n")
	for _, l := range r.Leases {
		fmt.Fprintf(w, "%s\t%t\t%t\t%d\t%.1f s ago\t%s\n", l.Node, l.Live, l.Ready, l.Claims, l.Age, orDash(l.Problem))
	}
	fmt.Fprint(w, "\nVIP\tADDRESS\tINTERFACE\tOWNER\tHERE\tSTATE\tPRESENT\tEPOCH\tWHY NOT HERE\n")
	for _, v := range r.VIPs {
		for _, a := range v.Addresses {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%t\t%d\t%s\n", v.Key, a.IP, orDash(a.Interface), orDash(a.Owner),
				a.Phase, orDash(string(v.State)), v.Present, a.Epoch, orDash(v.Why))
		}
	}
	if len(r.Refusals) > 0 {
		fmt.Fprint(w, "\nSERVICE\tREFUSED\tMESSAGE\n")
	}
	for _, f := range r.Refusals {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Service, f.Reason, f.Message)
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
