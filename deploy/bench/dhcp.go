package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/vipod/vipod/deploy/bench/result"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
)

// lentSize is how many Services ask a DHCP server at once. They are of IPv6,
// since the lab has fewer cluster IPs of IPv4.
const lentSize = 200

// dhcp makes Services whose addresses a DHCP server lends, alone and many at
// once.
func dhcp(ctx context.Context, m *measuring) error {
	for _, c := range []struct {
		kase      string
		n, trials int
		any       netip.Addr
	}{
		{"IPv4", 1, m.trials, netip.IPv4Unspecified()},
		{"IPv6", 1, m.trials, netip.IPv6Unspecified()},
		{fmt.Sprint(m.scaled(lentSize), " at once"), m.scaled(lentSize), m.large, netip.IPv6Unspecified()},
	} {
		err := m.each(ctx, c.kase, c.trials, func(ctx context.Context, _ int) ([]value, error) {
			return m.world.lend(ctx, c.n, c.any)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lend makes n Services at once that ask for an address of the family, says
// when they got it, and deletes them.
func (w *world) lend(ctx context.Context, n int, any netip.Addr) (values []value, err error) {
	stop, err := w.serveDHCP()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	b, err := w.batch(n)
	if err != nil {
		return nil, err
	}
	for i := range b.addrs {
		b.addrs[i] = any
	}
	services, err := b.client.CoreV1().Services(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watching Services: %w", err)
	}
	defer services.Stop()
	var frames *probe.Capture
	if err := w.InNS(client, func() (err error) { frames, err = probe.Listen(iface); return err }); err != nil {
		return nil, err
	}
	defer frames.Close()
	begin, got := time.Now(), map[string]lent{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.create(groupCtx) })
	group.Go(func() (err error) { got, err = b.lent(groupCtx, services); return err })
	if err = group.Wait(); err == nil {
		values, err = b.lentTimes(ctx, begin, got, frames)
	}
	return values, errors.Join(err, b.returned(ctx))
}

// lent is an address of a Service and when its status told it.
type lent struct {
	ip netip.Addr
	at time.Time
}

// lent waits until the status of every Service tells an address.
func (b *batch) lent(ctx context.Context, services watch.Interface) (map[string]lent, error) {
	ours := map[string]bool{}
	for i := range b.addrs {
		ours[b.serviceName(i)] = true
	}
	got := map[string]lent{}
	for len(got) < len(ours) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d Services have an address: %w", len(got), len(ours), ctx.Err())
		case event, open := <-services.ResultChan():
			if !open {
				return nil, errors.New("the watch of Services ended")
			}
			s, ok := event.Object.(*corev1.Service)
			if !ok || !ours[s.Name] || got[s.Name].ip.IsValid() || len(s.Status.LoadBalancer.Ingress) == 0 {
				continue
			}
			ip, err := netip.ParseAddr(s.Status.LoadBalancer.Ingress[0].IP)
			if err != nil {
				return nil, fmt.Errorf("status of Service %s: %w", s.Name, err)
			}
			got[s.Name] = lent{ip, time.Now()}
		}
	}
	return got, nil
}

// firstClaims are the times at which addresses were claimed first.
func firstClaims(frames []probe.Frame) map[netip.Addr]time.Time {
	first := map[netip.Addr]time.Time{}
	for _, f := range slices.Backward(frames) {
		if f.Claims() {
			first[f.IP] = f.Time
		}
	}
	return first
}

// lentTimes are the times from the creation of a Service on, and from the last
// creation until all are announced, which it waits for.
func (b *batch) lentTimes(ctx context.Context, begin time.Time, got map[string]lent, frames *probe.Capture) ([]value, error) {
	var first map[netip.Addr]time.Time
	err := b.w.Await(ctx, "all addresses are announced", func(ctx context.Context) (bool, error) {
		first = firstClaims(frames.Frames())
		for _, l := range got {
			if first[l.ip].IsZero() {
				return false, pause(ctx, poll)
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	var announced, told result.Series
	var last time.Time
	for i := range b.addrs {
		l := got[b.serviceName(i)]
		at := first[l.ip]
		announced.Values = append(announced.Values, ms(at.Sub(b.made[i])))
		told.Values = append(told.Values, ms(l.at.Sub(b.made[i])))
		if at.After(last) {
			last = at
		}
	}
	if len(b.addrs) == 1 {
		return []value{{"announced after creation", "ms", announced.Max()}, {"in the status after creation", "ms", told.Max()}}, nil
	}
	slices.Sort(announced.Values)
	slices.Sort(told.Values)
	return []value{
		{"creation of all", "s", b.last.Sub(begin).Seconds()},
		{"last creation until all are announced", "s", max(0, last.Sub(b.last).Seconds())},
		{"announced after creation, p50", "ms", announced.P50()},
		{"announced after creation, max", "ms", announced.Max()},
		{"in the status after creation, p50", "ms", told.P50()},
		{"in the status after creation, max", "ms", told.Max()},
	}, nil
}

// returned deletes the Services and waits until their links are gone.
func (b *batch) returned(ctx context.Context) error {
	if err := b.each(ctx, b.removeOne); err != nil {
		return err
	}
	return b.w.Await(ctx, "the links of deleted Services are gone", func(ctx context.Context) (bool, error) {
		for _, node := range b.w.Nodes() {
			var links []netsafe.Link
			err := b.w.InNS(node, func() (err error) { links, err = netsafe.Links(); return err })
			if err != nil || slices.ContainsFunc(links, func(l netsafe.Link) bool { return l.Kind == "macvlan" }) {
				return false, errors.Join(err, pause(ctx, poll))
			}
		}
		return true, nil
	})
}

// serveDHCP runs a DHCP server of both families on the LAN until it is stopped.
// It lends what no machine of the lab has.
func (w *world) serveDHCP() (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "dhcp")
	if err != nil {
		return nil, fmt.Errorf("making a folder for leases: %w", err)
	}
	pidFile := filepath.Join(dir, "pid")
	// It goes into the background when it serves.
	cmd := exec.Command("dnsmasq", "--port=0", "--interface=br0", "--bind-interfaces", "--except-interface=lo",
		"--conf-file=/dev/null", "--log-facility=/dev/null", "--no-ping", "--pid-file="+pidFile, "--user=root", "--dhcp-authoritative",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"),
		"--dhcp-range=198.51.100.20,198.51.100.99,255.255.255.0,1h", "--dhcp-range=2001:db8:0:1::d00,2001:db8:0:1::fff,64,1h")
	if err := w.InNS("lan", cmd.Run); err != nil {
		return nil, errors.Join(fmt.Errorf("starting dnsmasq: %w", err), os.RemoveAll(dir))
	}
	return func() error { return errors.Join(killByFile(pidFile), os.RemoveAll(dir)) }, nil
}

// killByFile kills the process that wrote its number into the file.
func killByFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("stopping dnsmasq: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil {
		return fmt.Errorf("stopping dnsmasq: %w", err)
	}
	return nil
}

// startLinkd starts linkd on every node, which other measurements do without.
func (w *world) startLinkd(ctx context.Context) error {
	for _, node := range w.Nodes() {
		if err := w.StartNode(ctx, node, ownership.Linkd); err != nil {
			return err
		}
	}
	return nil
}
