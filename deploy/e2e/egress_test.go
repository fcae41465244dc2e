package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

const annotationEgress = "kube-vip.io/egress"

// outsideOnce starts a server on the client's machine, which tells whom it
// sees.
var outsideOnce sync.Once

func (e *env) outside() {
	e.t.Helper()
	outsideOnce.Do(func() {
		bin, err := filepath.Abs(filepath.Join(os.Getenv("VIPOD_BIN_DIR"), "lab"))
		e.must(err)
		_, err = e.StartProgram(e.ctx, "client", "outside", []string{bin, "pod", "--name", "outside"}, nil)
		e.must(err)
	})
	e.within(soon, "the outside server answers", func() error {
		_, err := e.Get(e.ctx, "client", netip.AddrPortFrom(lab.ClientAddrs().V4, lab.HTTPPort))
		return err
	})
}

// seen returns whom the outside server sees when a pod connects.
func (e *env) seen(pod string, to netip.Addr) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(e.ctx, 500*time.Millisecond)
	defer cancel()
	answer, err := e.Get(ctx, pod, netip.AddrPortFrom(to, lab.HTTPPort))
	if err != nil {
		return netip.Addr{}, err
	}
	from, err := netip.ParseAddrPort(answer.Client)
	return from.Addr().Unmap(), err
}

// leavesAs returns an error unless the pod's connections of both families come
// from the VIP.
func (e *env) leavesAs(pod string, vip lab.Addrs) error {
	client := lab.ClientAddrs()
	for _, way := range [][2]netip.Addr{{client.V4, vip.V4}, {client.V6, vip.V6}} {
		from, err := e.seen(pod, way[0])
		if err == nil {
			err = want("source of "+pod, from, way[1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heldBack returns an error unless nothing of the pod comes through.
func (e *env) heldBack(pod string) error {
	for _, to := range lab.ClientAddrs().Slice() {
		if from, err := e.seen(pod, to); err == nil {
			return fmt.Errorf("%s comes through as %s", pod, from)
		}
	}
	return nil
}

func (e *env) egressService(name string, vip lab.Addrs, pods ...string) (owner string) {
	e.t.Helper()
	e.create(lab.ServiceSpec{
		Name: name, VIPs: vip.Slice(), Pods: pods, Policy: corev1.ServiceExternalTrafficPolicyLocal,
		Annotations: map[string]string{annotationEgress: "true"},
	})
	return e.owned(name)
}

func TestE2EPodsLeaveWithTheirServicesVIP(t *testing.T) {
	e := begin(t)
	e.outside()
	vip, name := e.vip(), "egress"
	owner := e.egressService(name, vip, "p1", "p2")
	here, there := podOf(owner), "p2"
	if here == there {
		there = "p1"
	}
	e.within(soon, "the owner's pod leaves with the VIP", func() error { return e.leavesAs(here, vip) })
	e.must(e.heldBack(there))
	e.told(soon, name, "EgressActive", owner, vip.V4.String())

	// Inside of the cluster a pod is itself.
	p3, err := e.Pod("p3")
	e.must(err)
	answer, err := e.Get(e.ctx, here, netip.AddrPortFrom(p3.V4, lab.HTTPPort))
	e.must(err)
	own, err := e.Pod(here)
	e.must(err)
	if from, err := netip.ParseAddrPort(answer.Client); err != nil || from.Addr() != own.V4 {
		t.Errorf("inside of the cluster %s is %s, want %s", here, answer.Client, own.V4)
	}

	// egressd may die and come back at any moment.
	e.stop(owner, unix.SIGKILL, ownership.Egressd)
	e.must(e.leavesAs(here, vip))
	e.must(e.heldBack(there))
	e.start(owner, ownership.Egressd)
	e.holds(calm, "the owner's pod leaves with the VIP", func() error { return e.leavesAs(here, vip) })

	// The owner moves with its last pod. No packet has a wrong source on the way.
	e.must(e.SetEndpoints(e.ctx, name, there))
	to := nodeOf(there)
	e.within(soon, "the VIP is on "+to, func() error {
		if err := e.leavesAs(there, vip); err != nil {
			if from, seenErr := e.seen(there, lab.ClientAddrs().V4); seenErr == nil && from != vip.V4 {
				t.Fatalf("%s left as %s", there, from)
			}
			return err
		}
		return nil
	})
	e.removeAll()
	for _, node := range e.Nodes() {
		e.within(soon, "nothing is left on "+node, func() error { return e.noTable(node, "vipod_egress") })
	}
}

func nodeOf(pod string) string { return "n" + pod[1:] }

// noTable returns an error while a node has the table.
func (e *env) noTable(node, table string) error {
	if _, err := e.Exec(e.ctx, node, "nft", "list", "table", "inet", table); err == nil {
		return fmt.Errorf("table %s is on %s", table, node)
	}
	return nil
}

func TestE2ERefusedEgressHoldsItsPodsBack(t *testing.T) {
	e := begin(t)
	e.outside()
	vip, name := e.vip(), "egress-bad"
	e.create(lab.ServiceSpec{
		Name: name, VIPs: vip.Slice(), Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
		Annotations: map[string]string{annotationEgress: "true", "kube-vip.io/egress-destination-ports": "tcp:https"},
	})
	owner := e.owned(name)
	e.told(soon, name, "EgressRefused", "tcp:https")
	e.within(soon, "the pod is held back", func() error { return e.heldBack(podOf(owner)) })
	e.change(name, func(s *corev1.Service) { s.Annotations["kube-vip.io/egress-destination-ports"] = "tcp:8080" })
	e.within(soon, "the pod leaves with the VIP", func() error { return e.leavesAs(podOf(owner), vip) })
}
