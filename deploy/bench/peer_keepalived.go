package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// keepalived speaks VRRP among the nodes for the addresses of the Service
// that trials are about. It knows nothing of Kubernetes: the Service's status
// is written for it.
type keepalived struct {
	program string
	dir     string // of its files
}

// keepalivedConfig is that of a node with a priority. A node that comes back
// takes nothing away from another (nopreempt); IPv4 and IPv6 go together.
const keepalivedConfig = `
global_defs {
    vrrp_garp_master_refresh 60
}
vrrp_sync_group both {
    group {
        four
        six
    }
}
vrrp_instance four {
    state BACKUP
    nopreempt
    interface eth0
    virtual_router_id 51
    priority %[1]d
    advert_int 1
    virtual_ipaddress {
        %[2]s/32 dev eth0
    }
}
vrrp_instance six {
    state BACKUP
    nopreempt
    interface eth0
    virtual_router_id 52
    priority %[1]d
    advert_int 1
    virtual_ipaddress {
        %[3]s/128 dev eth0
    }
}
`

func (*keepalived) name() string       { return "keepalived" }
func (*keepalived) env(setup) []string { return nil }
func (*keepalived) programs() []string { return []string{"keepalived"} }
func (*keepalived) settings() string {
	return "VRRP with an advertisement a second, nopreempt, for one IPv4 and one IPv6 address"
}

// prepare writes the configurations.
func (k *keepalived) prepare(_ context.Context, w *world) (err error) {
	if k.dir != "" {
		if err := os.RemoveAll(k.dir); err != nil {
			return fmt.Errorf("preparing keepalived: %w", err)
		}
	}
	if k.dir, err = os.MkdirTemp("", "bench-keepalived"); err != nil {
		return fmt.Errorf("preparing keepalived: %w", err)
	}
	for i, node := range w.Nodes() {
		vip := lab.VIP(0)
		text := fmt.Sprintf(keepalivedConfig, 200-i, vip.V4, vip.V6)
		if err := os.WriteFile(filepath.Join(k.dir, node+".conf"), []byte(text), 0o600); err != nil {
			return fmt.Errorf("preparing keepalived: %w", err)
		}
	}
	return nil
}

func (k *keepalived) start(ctx context.Context, w *world, node string, _ ...string) error {
	file := func(suffix string) string { return filepath.Join(k.dir, node+suffix) }
	_, err := w.StartProgram(ctx, node, "keepalived", []string{
		k.program, "--dont-fork", "--log-console", "--vrrp", "--use-file", file(".conf"),
		"--pid", file(".pid"), "--vrrp_pid", file(".vrrp.pid"),
	}, nil)
	return err
}

// ready waits until a node that was away hears the others.
func (*keepalived) ready(ctx context.Context, _ *world) error { return pause(ctx, 4*time.Second) }

// signal reaches its two processes, which are one group.
func (*keepalived) signal(w *world, node string, sig unix.Signal) error {
	p, ok := w.Program(node, "keepalived")
	if !ok || !p.Alive() {
		return fmt.Errorf("sending %v to keepalived of %s: it does not run", sig, node)
	}
	if err := unix.Kill(-p.PID, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %v to keepalived of %s: %w", sig, node, err)
	}
	return nil
}

func (*keepalived) serve(ctx context.Context, w *world, spec lab.ServiceSpec) error {
	vips := slices.Clone(spec.VIPs)
	spec.VIPs = nil
	service, err := w.CreateService(ctx, spec)
	if err != nil {
		return err
	}
	mode := corev1.LoadBalancerIPModeVIP
	for _, vip := range vips {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: vip.String(), IPMode: &mode})
	}
	_, err = w.Client().CoreV1().Services(metav1.NamespaceDefault).UpdateStatus(ctx, service, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of Service %s: %w", spec.Name, err)
	}
	return nil
}
