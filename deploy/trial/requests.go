package trial

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Requests are how many requests an API server got since its start, by verb
// and resource with a space between.
type Requests map[string]float64

// Requests reads the API server's own count of requests. The question itself
// is left out.
func (c *Cluster) Requests(ctx context.Context) (Requests, error) {
	data, err := c.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return parseRequests(data)
}

func parseRequests(page []byte) (Requests, error) {
	r := Requests{}
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
		r[label(labels, "verb")+" "+resource] += n
	}
	return r, lines.Err()
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

// Since returns what came on top of an earlier count.
func (r Requests) Since(before Requests) Requests {
	more := Requests{}
	for k, n := range r {
		if d := n - before[k]; d > 0 {
			more[k] = d
		}
	}
	return more
}

// IsHealth says whether requests of that kind reach no object: questions for
// the server's health.
func IsHealth(kind string) bool { return strings.Contains(kind, " /") }

// Objects counts the requests about objects.
func (r Requests) Objects() (n float64) {
	for kind, v := range r {
		if !IsHealth(kind) {
			n += v
		}
	}
	return n
}

// Rates returns how many requests of each kind there were a second.
func (r Requests) Rates(d time.Duration) map[string]float64 {
	rates := map[string]float64{}
	for kind, n := range r {
		rates[kind] = n / d.Seconds()
	}
	return rates
}
