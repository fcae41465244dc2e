package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"
)

// LocalHealth returns a question that is answered with nil while the API
// server of this node is well: a GET of the address that answers 200, with the
// certificates of caPath trusted besides the system's; or, without an address,
// of /readyz on the port of the loopback.
func LocalHealth(address, caPath string, port uint16) (func(context.Context) error, error) {
	if address == "" {
		return loopbackHealth(port), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caPath != "" {
		pem, err := os.ReadFile(caPath)
		if err != nil {
			return nil, fmt.Errorf("reading the health check's certificates: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading the health check's certificates: no certificate in %s", caPath)
		}
	}
	client := healthClient(config)
	return func(ctx context.Context) error {
		code, err := get(ctx, client, address)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("asking for %s: answer %d", address, code)
		}
		return err
	}, nil
}

// loopbackHealth asks on both families' loopback. Nothing secret is sent and
// nobody else can listen there, so that the certificate, which rarely names
// the loopback, does not matter. A server that refuses anonymous questions is
// well enough to refuse.
func loopbackHealth(port uint16) func(context.Context) error {
	client := healthClient(&tls.Config{InsecureSkipVerify: true}) // #nosec G402 see above
	return func(ctx context.Context) error {
		var errs []error
		for _, host := range []string{"127.0.0.1", "::1"} {
			url := "https://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/readyz"
			code, err := get(ctx, client, url)
			switch {
			case err != nil:
			case code == http.StatusOK, code == http.StatusUnauthorized, code == http.StatusForbidden:
				return nil
			default:
				err = fmt.Errorf("asking for %s: answer %d", url, code)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// ServerHealth returns a question that is answered with nil while the API
// server at an address is well. It keeps one connection to each. Nothing
// secret is sent, and whoever connects through the VIP checks the server's
// certificate himself: here it does not matter. A server that refuses
// anonymous questions is well enough to refuse.
func ServerHealth() func(ctx context.Context, server netip.AddrPort) error {
	client := healthClient(nil)
	client.Transport = &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // #nosec G402 see above
		MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}
	return func(ctx context.Context, server netip.AddrPort) error {
		url := "https://" + server.String() + "/readyz"
		code, err := get(ctx, client, url)
		if err == nil && code != http.StatusOK && code != http.StatusUnauthorized && code != http.StatusForbidden {
			err = fmt.Errorf("asking for %s: answer %d", url, code)
		}
		return err
	}
}

// healthClient makes a new connection per question: a kept one would hide a
// server that no longer accepts any.
func healthClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(ctx context.Context, client *http.Client, url string) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("asking for %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking for %s: %w", url, err)
	}
	// Read to its end, so that the connection can be kept.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
