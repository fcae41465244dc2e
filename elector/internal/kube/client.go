package kube

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"

	"github.com/vipod/vipod/shared/version"
)

// Options say how the API is reached.
type Options struct {
	// Kubeconfig is a file; empty for the pod's own token.
	Kubeconfig string
	// Host overrides the API server that the kubeconfig names.
	Host string
	// Observe is called for every answered request; may be nil. A code of 0
	// is a request without an answer.
	Observe func(verb, resource string, code int)
}

// Client talks to one API server. Its methods are safe for concurrent use.
type Client struct {
	log    *slog.Logger
	host   string
	params runtime.ParameterCodec

	// Leases have their own connection, so that neither a long list nor a
	// burst of status writes stands before a renewal.
	leases                  rest.Interface
	core, discovery, events rest.Interface
	leaseConns, otherConns  *connrotation.Dialer
}

const (
	dialTimeout = 2 * time.Second
	// requestTimeout is the longest that a request other than a watch, a list
	// or a Lease write may take.
	requestTimeout = 10 * time.Second
	protobuf       = "application/vnd.kubernetes.protobuf"
)

// NewClient reads the configuration and returns a client; nothing is sent.
func NewClient(log *slog.Logger, opts Options) (*Client, error) {
	base, err := restConfig(opts)
	if err != nil {
		return nil, err
	}
	return newClient(log, base, opts.Observe)
}

func restConfig(opts Options) (*rest.Config, error) {
	if opts.Kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the pod's API credentials: %w", err)
		}
		if opts.Host != "" {
			c.Host = opts.Host
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags(opts.Host, opts.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", opts.Kubeconfig, err)
	}
	return c, nil
}

func newClient(log *slog.Logger, base *rest.Config, observe func(string, string, int)) (*Client, error) {
	codecs, params := newCodecs()
	c := &Client{log: log, host: base.Host, params: params}
	base = rest.CopyConfig(base)
	base.UserAgent = "vipod-elector/" + version.Version
	base.QPS = -1 // budgets are kept where requests are made
	freshToken(base)
	base.ContentType, base.AcceptContentTypes = protobuf, protobuf+",application/json"
	if observe != nil {
		base.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &observer{rt, observe} })
	}
	leaseConfig, leaseConns := withConnections(base)
	otherConfig, otherConns := withConnections(base)
	c.leaseConns, c.otherConns = leaseConns, otherConns
	var err error
	if c.leases, err = restClients(leaseConfig, codecs)(coordinationv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	other := restClients(otherConfig, codecs)
	if c.core, err = other(corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if c.discovery, err = other(discoveryv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if c.events, err = other(eventsv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	return c, nil
}

// freshToken reads the token's file anew when the API server refuses the token
// that was read last: client-go alone reads it once a minute, which is longer
// than a Lease.
func freshToken(c *rest.Config) {
	if c.BearerTokenFile == "" {
		return
	}
	source := transport.NewCachedFileTokenSource(c.BearerTokenFile)
	c.BearerToken, c.BearerTokenFile = "", ""
	c.Wrap(transport.ResettableTokenSourceWrapTransport(source))
}

// withConnections gives the configuration connections of its own: client-go
// shares a transport between configurations with the same dialer.
func withConnections(base *rest.Config) (*rest.Config, *connrotation.Dialer) {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 5 * time.Second}
	conns := connrotation.NewDialer(d.DialContext)
	if base.Dial != nil {
		conns = connrotation.NewDialer(base.Dial)
	}
	c := rest.CopyConfig(base)
	c.Dial = conns.DialContext
	return c, conns
}

// restClients returns a maker of clients per group version that share one
// connection.
func restClients(config *rest.Config, codecs serializer.CodecFactory) func(schema.GroupVersion) (rest.Interface, error) {
	httpClient, httpErr := rest.HTTPClientFor(config)
	return func(gv schema.GroupVersion) (rest.Interface, error) {
		if httpErr != nil {
			return nil, fmt.Errorf("preparing API connection: %w", httpErr)
		}
		c := rest.CopyConfig(config)
		c.GroupVersion, c.NegotiatedSerializer, c.APIPath = &gv, codecs.WithoutConversion(), "/apis"
		if gv.Group == "" {
			c.APIPath = "/api"
		}
		client, err := rest.RESTClientForConfigAndClient(c, httpClient)
		if err != nil {
			return nil, fmt.Errorf("preparing API client for %s: %w", gv, err)
		}
		return client, nil
	}
}

// Reconnect closes every connection. A connection through a path that was cut
// may look alive for minutes; a request that got no answer in time is the
// sign to try a new one.
func (c *Client) Reconnect() {
	c.leaseConns.CloseAll()
	c.otherConns.CloseAll()
}

// Host returns the API server's address if it is configured as one and not as
// a name.
func (c *Client) Host() (netip.Addr, bool) {
	u, err := url.Parse(c.host)
	if err != nil {
		return netip.Addr{}, false
	}
	host := u.Hostname()
	if host == "" { // without a scheme, as kubernetes_addr may be
		host = c.host
	}
	a, err := netip.ParseAddr(host)
	return a.Unmap(), err == nil
}
