package main

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/bench/result"
	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

// system is what gives VIPs to nodes: vipod or a peer. All that is measured is
// seen from outside, so that it says little.
type system interface {
	name() string
	// env is the environment of vipod's daemons; nil for a peer.
	env(setup) []string
	// programs are those of each node.
	programs() []string
	// prepare makes what the system needs before its programs start.
	prepare(context.Context, *world) error
	start(ctx context.Context, w *world, node string, programs ...string) error
	// ready waits until every node could take over.
	ready(context.Context, *world) error
	// settings is told in the results; "" for vipod.
	settings() string
	// serve makes a Service at its VIPs.
	serve(context.Context, *world, lab.ServiceSpec) error
}

// creator is a system that follows Services as they are made.
type creator interface {
	system
	follows()
}

// signaller is a system whose programs are several processes each.
type signaller interface {
	signal(w *world, node string, sig unix.Signal) error
}

// peer is another implementation.
type peer struct {
	name string
	make func(program string) system
}

var peers = []peer{
	{"kube-vip", func(program string) system { return &kubeVIP{program: program} }},
	{"keepalived", func(program string) system { return &keepalived{program: program} }},
}

// systems returns vipod and the peers of which there is a program.
func (b *bench) systems() []system {
	list := []system{vipod{}}
	for _, p := range peers {
		if program, ok := b.peers[p.name]; ok {
			list = append(list, p.make(program))
		}
	}
	return list
}

// overARP are the daemons that VIPs over ARP and NDP need; linkd, bgpd and
// egressd are switched off, as where nobody asks for what they do.
var overARP = []string{ownership.Elector, ownership.Vipd, ownership.Arpd, ownership.Metricsd}

// vipod is the subject.
type vipod struct{}

func (vipod) name() string       { return result.Subject }
func (vipod) programs() []string { return overARP }
func (vipod) settings() string   { return "" }
func (vipod) follows()           {}

func (vipod) env(s setup) []string {
	return slices.Concat(lab.DefaultEnv(), []string{
		fmt.Sprintf("vip_leaseduration=%d", s.duration), fmt.Sprintf("vip_retryperiod=%d", s.renew),
		// elector says when a claim came back on its watch.
		"vip_loglevel=debug",
	})
}

func (vipod) prepare(context.Context, *world) error { return nil }

func (vipod) start(ctx context.Context, w *world, node string, programs ...string) error {
	return w.StartNode(ctx, node, programs...)
}

func (vipod) ready(ctx context.Context, w *world) error { return w.AwaitReady(ctx, w.running()...) }

func (vipod) serve(ctx context.Context, w *world, spec lab.ServiceSpec) error {
	_, err := w.CreateService(ctx, spec)
	return err
}
