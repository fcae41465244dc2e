package reconcile

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/shared/schema"
)

// Report is the answer to /status.
type Report struct {
	Links []LinkReport `json:"links"`
	VIPs  []VIPReport  `json:"vips"`
}

// LinkReport is one link that is wanted.
type LinkReport struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Parent string `json:"parent"`
	Index  int    `json:"index,omitempty"`
	MAC    string `json:"mac,omitempty"`
	Up     bool   `json:"up"`
	// Owned: made by linkd; others were there before.
	Owned   bool           `json:"owned"`
	Why     string         `json:"why,omitempty"` // it cannot be used
	Users   []string       `json:"users"`
	Clients []ClientReport `json:"clients,omitempty"`
}

// ClientReport is one DHCP client. Times are in seconds from now.
type ClientReport struct {
	State     string       `json:"state"`
	Address   string       `json:"address,omitempty"`
	Server    string       `json:"server,omitempty"`
	RenewIn   float64      `json:"renewIn,omitempty"`
	ExpiresIn float64      `json:"expiresIn,omitempty"`
	Counts    lease.Counts `json:"counts"`
}

// VIPReport is how a VIP's links stand.
type VIPReport struct {
	Key        string             `json:"key"`
	Conditions []schema.Condition `json:"conditions"`
}

func reportOf(s schema.LinkStatus) VIPReport { return VIPReport{s.Key, s.Conditions} }

// Report returns what the last pass that acted found.
func (r *Reconciler) Report() Report { return *r.answer.Load() }

// Print writes the report as a table for people.
func (r Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "LINK\tKIND\tPARENT\tINDEX\tMAC\tUP\tOWNED\tSTATE\tADDRESS\tSERVER\tRENEW\tEXPIRES\tUSERS\n")
	for _, l := range r.Links {
		clients := l.Clients
		if len(clients) == 0 {
			clients = []ClientReport{{State: l.Why}}
		}
		for _, c := range clients {
			renew, expires := "-", "-"
			if c.Address != "" {
				renew, expires = fmt.Sprintf("%.0f s", c.RenewIn), fmt.Sprintf("%.0f s", c.ExpiresIn)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%t\t%t\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Kind, l.Parent, l.Index, orDash(l.MAC),
				l.Up, l.Owned, orDash(c.State), orDash(c.Address), orDash(c.Server), renew, expires, strings.Join(l.Users, ", "))
		}
	}
	fmt.Fprint(w, "\nVIP\tCONDITION\tSTATUS\tREASON\tMESSAGE\n")
	for _, v := range r.VIPs {
		for _, c := range v.Conditions {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Key, c.Type, c.Status, orDash(c.Reason), orDash(c.Message))
		}
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
