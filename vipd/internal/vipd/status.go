package vipd

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/vipod/vipod/vipd/internal/reconcile"
)

// PrintStatus prints the answer to /status as a table.
func PrintStatus(out io.Writer, body []byte) error {
	var s reconcile.Report
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	if !s.Fence {
		fmt.Fprintln(out, "no fence: the kernel has no nf_tables egress hook, or elector has not spoken yet")
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "VIP\tSTATE\tADDRESS\tINTERFACE\tPRESENT\tMUTED\tFENCED\tGRANT\tLEFT\tREASON")
	for _, v := range s.VIPs {
		for _, a := range v.Addresses {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%t\t%t\t%t\t%s\t%.1fs\t%s\n", v.Key, v.State, a.IP, a.Interface,
				a.Present, a.Muted, a.Fenced, v.Grant, v.GrantLeft, a.Reason)
		}
	}
	return w.Flush()
}
