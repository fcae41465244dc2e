package lab

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// proxyTimeout is how long a kube-proxy may take to program its node.
const proxyTimeout = time.Minute

// startProxies starts kube-proxy on every node and waits until each has
// programmed its node once.
func (l *Lab) startProxies(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range l.Nodes() {
		group.Go(func() error { return l.startProxy(ctx, node) })
	}
	return group.Wait()
}

func (l *Lab) startProxy(ctx context.Context, node string) error {
	p, err := l.start(ctx, program{role: node, name: "kube-proxy", argv: []string{
		l.bin("cluster"), "kube-proxy", "--proxy-mode=nftables", "--hostname-override=" + node,
		"--kubeconfig=" + l.path("pki", "system:kube-proxy.kubeconfig"),
		// Rules follow a change of a Service at once.
		"--iptables-min-sync-period=0s",
		// These settings are the machine's and not the node's.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
		"--conntrack-tcp-timeout-close-wait=0s",
	}})
	if err != nil {
		return err
	}
	client := l.httpClient(node)
	return l.await(ctx, p, 20*time.Millisecond, func() error {
		_, err := get(ctx, client, "http://127.0.0.1:10256/healthz")
		return err
	})
}
