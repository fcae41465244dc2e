package arpd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// Report is the answer to /status.
type Report struct {
	// Node is elector's document that the daemon acts on.
	Node schema.Observed `json:"node"`
	// Problem is what could not be read or done, if anything.
	Problem   string          `json:"problem,omitempty"`
	Addresses []AddressReport `json:"addresses"`
}

// AddressReport is one address of one VIP.
type AddressReport struct {
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

func (p *parts) report(now time.Duration) Report {
	result, states := p.reconciler.Result(), p.engine.States()
	a := Report{Node: result.Documents.Seen(), Addresses: []AddressReport{}}
	a.Problem = result.Documents.Problems.Condition().Message
	if result.Err != nil {
		a.Problem = result.Err.Error()
	}
	for _, v := range result.Plan.VIPs {
		for _, planned := range v.Addresses {
			state := states.Addresses[planned.Key]
			probe := states.Probes[v.Key][planned.Key]
			row := AddressReport{
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

// PrintStatus prints a Report as a table.
func PrintStatus(out io.Writer, answer []byte) error {
	var a Report
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

func (r AddressReport) announced() string {
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
