package bgpd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vipod/vipod/bgpd/internal/reconcile"
)

// PrintStatus prints the answer to /status as a table.
func PrintStatus(out io.Writer, body []byte) error {
	var s reconcile.Report
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	if s.AS == 0 {
		fmt.Fprintln(out, "no BGP: elector's settings name no peers, or it has not spoken yet")
	} else {
		fmt.Fprintf(out, "AS %d, router id %s\n", s.AS, s.RouterID)
	}
	if s.Problem != "" {
		fmt.Fprintln(out, s.Problem)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nPEER\tADDRESS\tAS\tSTATE\tBFD\tFOR\tHOLD\tRESTART\tPATHS\tLOST\tPROBLEM")
	for _, p := range s.Peers {
		state := strings.ToLower(strings.TrimPrefix(string(p.Phase), "SESSION_STATE_"))
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%gs\t%ds\t%d\t%d\t%s\n", p.Name, p.Address, p.AS, state, dash(p.BFD),
			time.Since(p.Since).Round(time.Second), p.HoldSeconds, p.RestartSeconds, p.Paths, p.Lost, dash(p.Problem))
	}
	fmt.Fprintln(w, "\nPATH\tLEAVING\tTOLD TO")
	for _, p := range s.Paths {
		fmt.Fprintf(w, "%s\t%t\t%s\n", p.Prefix, p.Leaving, dash(strings.Join(p.Peers, ", ")))
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
