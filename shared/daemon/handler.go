package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Answers are what a daemon answers on its socket.
type Answers struct {
	// Healthy asks the loops whether they live: /healthz, for which a daemon
	// is restarted.
	Healthy func(context.Context) error
	// Ready says whether the daemon does its work: /readyz.
	Ready func() error
	// Status returns what is encoded as JSON for /status.
	Status func(context.Context) (any, error)
	// Metrics serves /metrics.
	Metrics http.Handler
}

// Handler returns the handler of a daemon's socket. An error is answered with
// status 503.
func Handler(a Answers) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { ok(w, a.Healthy(r.Context())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { ok(w, a.Ready()) })
	mux.Handle("GET /metrics", a.Metrics)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		answer, err := a.Status(r.Context())
		if err != nil {
			ok(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a client that is gone needs no answer
	})
	return mux
}

func ok(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // as above
}
