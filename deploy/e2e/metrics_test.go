package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// page is a metrics page: the value of every series by its name and labels as
// they stand there.
type page map[string]float64

// scrape reads a node's metrics as Prometheus would.
func (e *env) scrape(node string) page {
	e.t.Helper()
	p, err := parsePage(e.visit(node, "2112", "/metrics"))
	e.must(err)
	return p
}

// visit asks a node's own port over HTTP and returns the body.
func (e *env) visit(node, port, path string) string {
	e.t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return e.Dial(ctx, node, network, addr)
		},
	}}
	request, err := http.NewRequestWithContext(e.ctx, http.MethodGet, "http://127.0.0.1:"+port+path, http.NoBody)
	e.must(err)
	response, err := client.Do(request)
	e.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	e.must(err)
	e.must(want(path, response.StatusCode, http.StatusOK))
	return string(body)
}

// parsePage reads the text format of Prometheus.
func parsePage(text string) (page, error) {
	p := page{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		series, value, ok := cutLast(line, " ")
		number, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("metrics: %q", line)
		}
		p[series] = number
	}
	return p, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// find returns the series of a name whose labels contain all of the texts.
func (p page) find(name string, labels ...string) []string {
	var found []string
next:
	for series := range p {
		if rest, ok := strings.CutPrefix(series, name); !ok || rest != "" && rest[0] != '{' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue next
			}
		}
		found = append(found, series)
	}
	return found
}

// sum adds them up; none is 0.
func (p page) sum(name string, labels ...string) (sum float64) {
	for _, series := range p.find(name, labels...) {
		sum += p[series]
	}
	return sum
}
