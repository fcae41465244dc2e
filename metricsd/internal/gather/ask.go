package gather

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/sock"
)

// AskTimeout is how long a sibling may take, well below Prometheus' own
// limit, 10 s by default.
const AskTimeout = 2 * time.Second

// maxText is the largest page that is parsed, in bytes; parsed, it takes about
// ten times that.
const maxText = 4 << 20

// buildInfo is the metric by which every daemon says its version.
const buildInfo = "vipod_build_info"

// Sibling asks one daemon over its socket.
type Sibling interface {
	Get(ctx context.Context, path string) ([]byte, error)
}

// Result is what one sibling answered.
type Result struct {
	Up bool
	// Err says why there are no metrics, or not all; Reason is the same in
	// one word, for a label.
	Err      error
	Reason   Reason
	Families map[string]*dto.MetricFamily
}

// Reason is a kind of failure.
type Reason string

// Reasons.
const (
	ReasonUnreachable Reason = "unreachable"
	ReasonTimeout     Reason = "timeout"
	ReasonTooLarge    Reason = "too_large"
	ReasonMalformed   Reason = "malformed"
	ReasonConflict    Reason = "conflict"
)

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{ReasonUnreachable, ReasonTimeout, ReasonTooLarge, ReasonMalformed, ReasonConflict}
}

// each asks all siblings side by side and waits for the slowest, at most for
// the timeout.
func each[T any](ctx context.Context, timeout time.Duration, siblings map[string]Sibling,
	ask func(context.Context, Sibling) T,
) map[string]T {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	results := map[string]T{}
	for name, s := range siblings {
		wg.Go(func() {
			r := ask(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			results[name] = r
		})
	}
	wg.Wait()
	return results
}

// metrics asks one sibling for its metrics.
func metrics(ctx context.Context, s Sibling) Result {
	text, err := s.Get(ctx, "/metrics")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Result{Err: err, Reason: ReasonTimeout}
	case errors.Is(err, sock.ErrTooLarge):
		return Result{Up: true, Err: err, Reason: ReasonTooLarge}
	case err != nil:
		return Result{Err: err, Reason: ReasonUnreachable}
	case len(text) > maxText:
		return Result{Up: true, Err: fmt.Errorf("%d bytes of metrics, at most %d are read", len(text), maxText), Reason: ReasonTooLarge}
	}
	families, err := Parse(text)
	if err != nil {
		return Result{Up: true, Err: err, Reason: ReasonMalformed}
	}
	return Result{Up: true, Families: families}
}

// answer asks one sibling how it is.
func answer(ctx context.Context, s Sibling) pod.Answer {
	r := metrics(ctx, s)
	a := pod.Answer{Up: r.Up, Version: versionOf(r.Families)}
	if r.Err != nil {
		a.Message = brief(r.Err)
	}
	if !a.Up {
		return a
	}
	if _, err := s.Get(ctx, "/readyz"); err != nil {
		a.Message = err.Error()
		return a
	}
	a.Ready = true
	return a
}

// brief leaves out the addresses of a connection that could not be made, which
// are the same each time.
func brief(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return "socket: " + op.Err.Error()
	}
	return err.Error()
}

func versionOf(families map[string]*dto.MetricFamily) string {
	for _, m := range families[buildInfo].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "version" {
				return l.GetValue()
			}
		}
	}
	return ""
}
