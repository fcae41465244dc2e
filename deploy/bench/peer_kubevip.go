package main

import (
	"context"
	"time"

	"github.com/vipod/vipod/deploy/lab"
)

// kubeVIP runs kube-vip's manager with a Lease for each Service.
type kubeVIP struct{ program string }

// kubeVIPEnv are its settings, by the names that its documentation has.
var kubeVIPEnv = []string{
	"vip_arp=true", "cp_enable=false", "svc_enable=true", "svc_election=true", "vip_interface=" + iface,
	"vip_leaseduration=5", "vip_renewdeadline=3", "vip_retryperiod=1", "prometheus_server=",
}

func (*kubeVIP) name() string                          { return "kube-vip" }
func (*kubeVIP) env(setup) []string                    { return nil }
func (*kubeVIP) programs() []string                    { return []string{"kube-vip"} }
func (*kubeVIP) prepare(context.Context, *world) error { return nil }
func (*kubeVIP) follows()                              {}
func (*kubeVIP) settings() string                      { return "a Lease per Service: 5 s, 3 s, 1 s" }

func (k *kubeVIP) start(ctx context.Context, w *world, node string, _ ...string) error {
	env := append([]string{"vip_nodename=" + node, "k8s_config_file=" + w.AdminKubeconfig()}, kubeVIPEnv...)
	_, err := w.StartProgram(ctx, node, "kube-vip", []string{k.program, "manager"}, env)
	return err
}

// ready gives it time to start: it does not say when it could take over.
func (*kubeVIP) ready(ctx context.Context, _ *world) error { return pause(ctx, 3*time.Second) }

func (*kubeVIP) serve(ctx context.Context, w *world, spec lab.ServiceSpec) error {
	_, err := w.CreateService(ctx, spec)
	return err
}
