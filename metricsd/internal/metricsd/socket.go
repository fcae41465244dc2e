package metricsd

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"

	"github.com/vipod/vipod/metricsd/internal/gather"
	"github.com/vipod/vipod/metricsd/internal/web"
)

// socketHandler answers on metricsd's own socket. /metrics is the page of the
// whole pod, also where nothing listens on TCP.
func socketHandler(log *slog.Logger, source web.Source, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // a visitor who left
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		body, err := json.Marshal(source.Report(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		text, err := source.Page(r.Context())
		if err != nil {
			log.Warn("metrics page is not complete", "err", err)
		}
		w.Header().Set("Content-Type", gather.ContentType)
		_, _ = w.Write(text)
	})
	return mux
}
