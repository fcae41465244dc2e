package lab

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// progress prints log records for a person who waits: the seconds since the
// start, the message, and the attributes in one line.
type progress struct {
	mu    *sync.Mutex
	out   io.Writer
	begin time.Time
	attrs []slog.Attr
}

// ProgressLogger returns a logger that prints to out for a person who waits.
func ProgressLogger(out io.Writer) *slog.Logger {
	return slog.New(&progress{mu: new(sync.Mutex), out: out, begin: time.Now()})
}

// Enabled says that all but debugging is printed.
func (p *progress) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle prints one record.
func (p *progress) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	fmt.Fprintf(&line, "[%5.1fs] %s", r.Time.Sub(p.begin).Seconds(), r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&line, "  %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range p.attrs {
		add(a)
	}
	r.Attrs(add)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.out, line.String())
	return err
}

// WithAttrs returns a handler that prints these attributes too.
func (p *progress) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *p
	more.attrs = append(append([]slog.Attr{}, p.attrs...), attrs...)
	return &more
}

// WithGroup ignores groups: nothing printed here has any.
func (p *progress) WithGroup(string) slog.Handler { return p }
