package arpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/schema"
)

// checkWait is how long a loop may take to come round before the daemon is
// called unhealthy.
const checkWait = 2 * time.Second

// Answer is what /status says.
type Answer struct {
	// Node is elector's document that the daemon acts on.
	Node schema.Observed `json:"node"`
	// Problem is what could not be read or done, if anything.
	Problem   string `json:"problem,omitempty"`
	Addresses []Row  `json:"addresses"`
}

// Row is one address of one VIP.
type Row struct {
	VIP       string       `json:"vip"`
	State     schema.State `json:"state"`
	Address   netip.Addr   `json:"address"`
	Interface string       `json:"interface"`
	// Announced says whether frames are sent for it, Why why not.
	Announced bool        `json:"announced"`
	Why       plan.Reason `json:"why,omitempty"`
	// SentMillis is the age of the last frame in milliseconds, -1 for never.
	SentMillis int64  `json:"sentMillisAgo"`
	Frames     uint64 `json:"frames"`
	// Unclaimed is the result of probing a standby address.
	Unclaimed schema.ConditionStatus `json:"unclaimed,omitempty"`
	// Conflict is the link-layer address of another host that claims it.
	Conflict string `json:"conflict,omitempty"`
}

func (p *parts) handler(ready func() error, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkWait)
		defer cancel()
		reply(w, errors.Join(p.engine.Check(ctx), p.reconciler.Check(ctx), p.reporter.Check(ctx)))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, errors.Join(ready(), p.reconciler.Result().Err))
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.answer(bootclock.Now())) // the client has gone
	})
	return mux
}

func reply(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // the client has gone
}

func (p *parts) answer(now time.Duration) Answer {
	result, states := p.reconciler.Result(), p.engine.States()
	a := Answer{Node: result.Documents.Seen(), Addresses: []Row{}}
	a.Problem = result.Documents.Problems.Condition().Message
	if result.Err != nil {
		a.Problem = result.Err.Error()
	}
	for _, v := range result.Plan.VIPs {
		for _, planned := range v.Addresses {
			state := states.Addresses[planned.Key]
			probe := states.Probes[v.Key][planned.Key]
			row := Row{
				VIP: v.Key, State: v.State, Address: planned.IP, Interface: planned.Interface, Why: planned.Reason,
				SentMillis: -1, Unclaimed: probe.Unclaimed, Conflict: probe.MAC.String(),
			}
			if v.State == schema.StateActive {
				row.Announced, row.Frames, row.Conflict = state.Announced, state.Frames, state.Conflict.String()
			}
			if row.Frames > 0 {
				row.SentMillis = (now - state.Sent).Milliseconds()
			}
			a.Addresses = append(a.Addresses, row)
		}
	}
	return a
}

// PrintStatus prints an Answer as a table.
func PrintStatus(out io.Writer, answer []byte) error {
	var a Answer
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VIP\tADDRESS\tINTERFACE\tSTATE\tANNOUNCED\tLAST SENT\tFRAMES\tCONFLICT")
	for _, r := range a.Addresses {
		sent := "never"
		if r.SentMillis >= 0 {
			sent = (time.Duration(r.SentMillis) * time.Millisecond).Round(100*time.Millisecond).String() + " ago"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n",
			r.VIP, r.Address, r.Interface, r.State, r.announced(), sent, r.Frames, orDash(r.Conflict))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing status: %w", err)
	}
	if a.Problem != "" {
		_, err := fmt.Fprintf(out, "\nproblem: %s\n", a.Problem)
		return err
	}
	return nil
}

func (r Row) announced() string {
	switch {
	case r.Announced:
		return "yes"
	case r.Unclaimed != "":
		return fmt.Sprintf("no (unclaimed: %s)", r.Unclaimed)
	case r.Why != "":
		return fmt.Sprintf("no (%s)", r.Why)
	}
	return "no"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
