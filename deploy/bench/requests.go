package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// counts are requests since the API server's start, by verb and resource with
// a space between.
type counts map[string]float64

// requests reads the API server's own count of requests. The question itself
// is left out.
func (w *world) requests(ctx context.Context) (counts, error) {
	data, err := w.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return parseRequests(data)
}

func parseRequests(page []byte) (counts, error) {
	c := counts{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, number, ok := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("reading the API server's metrics: line %q", lines.Text())
		}
		resource, sub := label(labels, "resource"), label(labels, "subresource")
		switch {
		case sub == "/metrics":
			continue
		case resource == "": // such as /readyz
			resource = sub
		case sub != "":
			resource += "/" + sub
		}
		c[label(labels, "verb")+" "+resource] += n
	}
	return c, lines.Err()
}

// label returns a label's value; those that are asked for hold no quotes.
func label(labels, name string) string {
	for _, l := range strings.Split(labels, ",") {
		if value, ok := strings.CutPrefix(l, name+`="`); ok {
			return strings.TrimSuffix(value, `"`)
		}
	}
	return ""
}

// since returns what came on top of an earlier count.
func (c counts) since(before counts) counts {
	more := counts{}
	for k, n := range c {
		if d := n - before[k]; d > 0 {
			more[k] = d
		}
	}
	return more
}

// isHealth says whether requests of that kind reach no object: questions for
// the server's health.
func isHealth(kind string) bool { return strings.Contains(kind, " /") }

// objects counts the requests about objects.
func (c counts) objects() (n float64) {
	for kind, v := range c {
		if !isHealth(kind) {
			n += v
		}
	}
	return n
}

// rates returns how many requests of each kind there were a second.
func (c counts) rates(d time.Duration) map[string]float64 {
	rates := map[string]float64{}
	for kind, n := range c {
		rates[kind] = n / d.Seconds()
	}
	return rates
}

// baselineLook is how long the lab's own requests are counted: it makes some
// every 10 s.
const baselineLook = 20 * time.Second

// window counts requests for a while.
func (w *world) window(ctx context.Context, d time.Duration) (counts, error) {
	before, err := w.requests(ctx)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, d); err != nil {
		return nil, err
	}
	now, err := w.requests(ctx)
	return now.since(before), err
}

// quiet waits until the system has nothing more to write about Services.
func (w *world) quiet(ctx context.Context) error {
	for {
		c, err := w.window(ctx, 3*time.Second)
		if err != nil {
			return err
		}
		busy := 0.0
		for k, n := range c {
			if strings.Contains(k, " services") || strings.HasSuffix(k, " events") {
				busy += n
			}
		}
		if busy == 0 {
			return nil
		}
	}
}
