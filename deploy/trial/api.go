package trial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// askTimeout is how long one question to an API server may take.
const askTimeout = time.Second

// AwaitAPI waits until an API server answers at the address, from the client,
// and returns the status of its answer.
func (c *Cluster) AwaitAPI(ctx context.Context, addr netip.AddrPort) (status string, err error) {
	client := http.Client{Timeout: askTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		// The lab's CA is not this process's; who answers is not the question.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return c.Dial(ctx, clientRole, network, addr)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr.String()+"/version", http.NoBody)
	if err != nil {
		return "", fmt.Errorf("asking the API server at %s: %w", addr, err)
	}
	err = c.Await(ctx, "an API server answers at "+addr.String(), func(context.Context) (bool, error) {
		response, err := client.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // asked again until the context ends
		}
		status = response.Status
		return true, response.Body.Close()
	})
	return status, err
}
