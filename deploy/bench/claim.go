package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vipod/vipod/deploy/bench/result"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/bootclock"
)

// electorLogs are the logs of all electors from now on. At debug level elector
// says when a change of its claims came back on its watch: from then on it
// owns them.
type electorLogs struct {
	paths map[string]string // by node
	sizes map[string]int64
}

func (w *world) electorLogs() *electorLogs {
	l := &electorLogs{paths: map[string]string{}, sizes: map[string]int64{}}
	if w.sys.name() != result.Subject {
		return l
	}
	for _, node := range w.Nodes() {
		l.paths[node] = w.LogPath(node, "elector")
		if info, err := os.Stat(l.paths[node]); err == nil {
			l.sizes[node] = info.Size()
		}
	}
	return l
}

// claims returns when a node's elector saw its claims change.
func (l *electorLogs) claims(node string) []time.Time {
	data, err := os.ReadFile(l.paths[node])
	if err != nil {
		return nil
	}
	// The wall clock's reading of what the log has of the boot clock.
	offset := time.Now().Add(-bootclock.Now())
	var times []time.Time
	for line := range bytes.Lines(data[min(l.sizes[node], int64(len(data))):]) {
		_, text, ok := strings.Cut(string(line), ` msg="claims seen" `)
		if !ok {
			continue
		}
		_, text, _ = strings.Cut(text, "boottime=")
		if ns, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			times = append(times, offset.Add(time.Duration(ns)))
		}
	}
	return times
}

// sinceClaim is how long after the successor's claim came back on its watch
// each first announcement was on the wire.
func (f *fault) sinceClaim(first []probe.Frame) []value {
	var values []value
	for i, frame := range first {
		var claimed time.Time
		for _, t := range f.logs.claims(f.w.macs[frame.Sender]) {
			if t.Before(frame.Time) {
				claimed = t // the last one before
			}
		}
		if !claimed.IsZero() {
			values = append(values, value{"first " + []string{"GARP", "NA"}[i] + " after the claim", "ms", ms(frame.Time.Sub(claimed))})
		}
	}
	return values
}
