package egressd

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/vipod/vipod/egressd/internal/reconcile"
)

// PrintStatus prints the answer to /status as a table.
func PrintStatus(out io.Writer, body []byte) error {
	var s reconcile.Report
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "VIP\tSTATE\tPODS\tWHAT\tIS\tREASON\tMESSAGE")
	for _, v := range s.VIPs {
		for _, c := range v.Conditions {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", v.Key, v.State, v.Pods, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return w.Flush()
}
