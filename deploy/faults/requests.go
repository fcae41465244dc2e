package faults

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// count is how many requests about objects the API server has served since
// its start.
type count struct {
	at time.Time
	n  int64
}

// requests reads the API server's own count. Questions for its health and
// metrics are left out.
func (w *World) requests(ctx context.Context) (count, error) {
	data, err := w.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return count{}, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	n, err := parseRequests(data)
	return count{time.Now(), n}, err
}

func parseRequests(page []byte) (total int64, err error) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok || strings.Contains(labels, `,resource=""`) {
			continue
		}
		_, number, ok := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return 0, fmt.Errorf("reading the API server's metrics: line %q", lines.Text())
		}
		total += int64(n)
	}
	return total, lines.Err()
}

// noteRequests notes what was asked since an earlier count. A server that was
// started in between counts from its start.
func (w *World) noteRequests(ctx context.Context, before count) error {
	now, err := w.requests(ctx)
	if err != nil {
		return err
	}
	if now.n < before.n {
		before.n = 0
	}
	w.Observer.note(Event{At: before.at, Until: now.at, Kind: Requests, N: now.n - before.n})
	return nil
}
