package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/deploy/trial"
)

// count is what the API server has been asked about objects since its start.
type count struct {
	at   time.Time
	from trial.Requests
}

func (w *World) requests(ctx context.Context) (count, error) {
	r, err := w.Requests(ctx)
	return count{time.Now(), r}, err
}

// asked are the requests that vipod may make. The API server makes others of
// itself, hundreds while it starts.
var asked = []string{
	"GET leases", "LIST leases", "WATCH leases", "PUT leases", "POST leases", "DELETE leases",
	"LIST services", "WATCH services", "PATCH services/status", "LIST endpointslices", "WATCH endpointslices",
	"GET nodes", "LIST nodes", "WATCH nodes", "POST events", "PATCH events",
}

// noteRequests notes what was asked since an earlier count. A server that was
// started in between counts from its start.
func (w *World) noteRequests(ctx context.Context, before count) error {
	now, err := w.requests(ctx)
	if err != nil {
		return err
	}
	more := now.from
	if now.from.Objects() >= before.from.Objects() {
		more = now.from.Since(before.from)
	}
	maps.DeleteFunc(more, func(kind string, _ float64) bool { return !slices.Contains(asked, kind) })
	w.Observer.note(Event{At: before.at, Until: now.at, Kind: Requests, N: int64(more.Objects()), Text: most(more)})
	return nil
}

// most names the kinds of requests about objects, the most frequent first.
func most(r trial.Requests) string {
	kinds := slices.DeleteFunc(slices.Collect(maps.Keys(r)), trial.IsHealth)
	slices.SortFunc(kinds, func(a, b string) int { return int(r[b] - r[a]) })
	var list []string
	for _, k := range kinds {
		list = append(list, fmt.Sprintf("%s %.0f", k, r[k]))
	}
	return strings.Join(list, ", ")
}
