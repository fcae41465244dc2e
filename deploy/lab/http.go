package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Answer is what a pod answers over HTTP.
type Answer struct {
	Pod    string `json:"pod"`
	Client string `json:"client"` // as the pod sees it
}

// Get asks an address and port over HTTP, from within a role's namespace,
// and returns which pod answered.
func (l *Lab) Get(ctx context.Context, role string, addr netip.AddrPort) (Answer, error) {
	var answer Answer
	body, err := get(ctx, l.httpClient(role), "http://"+addr.String()+"/")
	if err != nil {
		return answer, fmt.Errorf("asking %s from %s: %w", addr, role, err)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("reading the answer of %s: %w", addr, err)
	}
	return answer, nil
}

// httpClient returns a client that connects from within a role's namespace.
func (l *Lab) httpClient(role string) *http.Client {
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return l.Dial(ctx, role, network, addr)
		},
	}}
}

// get returns the body; a status other than 200 is an error that quotes it.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}
