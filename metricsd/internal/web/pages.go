// Package web serves the metrics and the status page over TCP, the one port
// that a pod of vipod has. Everybody on the network can reach it: it only
// reads, bounds what a visitor can cost, and escapes what it shows.
package web

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/vipod/vipod/metricsd/internal/gather"
	"github.com/vipod/vipod/metricsd/internal/pod"
)

// maxScrapes is how many pages are made at a time; further visitors are told
// to come back.
const maxScrapes = 4

// Source makes the pages' content.
type Source interface {
	Page(ctx context.Context) ([]byte, error)
	Report(ctx context.Context) pod.Report
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Handler serves / and /metrics.
func Handler(log *slog.Logger, source Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		text, err := source.Page(r.Context())
		if err != nil { // what could be made is shown all the same
			log.Warn("metrics page is not complete", "err", err)
		}
		if len(text) == 0 {
			http.Error(w, "no metrics could be gathered", http.StatusInternalServerError)
			return
		}
		answer(w, gather.ContentType, text)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		if err := page.Execute(&text, source.Report(r.Context())); err != nil {
			log.Warn("status page cannot be made", "err", err)
			http.Error(w, "the page could not be made", http.StatusInternalServerError)
			return
		}
		answer(w, "text/html; charset=utf-8", text.Bytes())
	})
	return limit(maxScrapes, mux)
}

func answer(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(body) // a visitor who left
}

// limit answers 503 while n requests are being answered.
func limit(n int, next http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		}
	})
}
