package vipd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/vipd/internal/reconcile"
)

// handler answers on the socket.
func handler(r *reconcile.Reconciler, registry prometheus.Gatherer, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler(registry))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, req *http.Request) { answer(w, r.Alive(req.Context())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, ready()) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.Snapshot()) // a client that is gone needs no answer
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // as above
}

// PrintStatus prints the answer to /status as a table.
func PrintStatus(out io.Writer, body []byte) error {
	var s reconcile.Snapshot
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
