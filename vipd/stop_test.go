package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

func TestNetnsReplacedContainerLeavesEverythingForItsSuccessor(t *testing.T) {
	r, a := serving(t, time.Hour)
	r.Serve(ownership.Elector, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r.Signal(syscall.SIGTERM)
	if took := r.Exited(); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if !r.has(vip4) || !r.has(vip6) || !a.answered(vip4, patience) {
		t.Error("the VIP did not survive its daemon's replacement")
	}
}

func TestNetnsStoppedPodLeavesNothing(t *testing.T) {
	r, _ := serving(t, time.Hour)
	r.Serve(ownership.Elector, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r.writeNode(func(n *schema.Node) { n.Phase = schema.PhaseStopping })
	r.Signal(syscall.SIGTERM)
	r.vip("default.web", schema.StateDraining, vip4, vip6)
	r.eventually("muted after SIGTERM", func() bool { return r.is("default.web", schema.ConditionMuted) })
	r.writeNode(func(n *schema.Node) { n.Phase = schema.PhaseStopped })
	r.Exited()
	if r.has(vip4) || r.has(vip6) {
		t.Error("addresses are left")
	}
	if out := r.run("nft", "list", "ruleset"); strings.Contains(out, "vipod") {
		t.Errorf("the fence is left:\n%s", out)
	}
}

func TestNetnsSIGKILLAtAnyMomentThenRestartConverges(t *testing.T) {
	r := newRig(t)
	r.synced()
	r.Grant(time.Hour)
	for i := range 12 {
		ip := fmt.Sprintf("203.0.113.%d", i+1)
		r.vip("default.web", schema.StateActive, ip, vip6)
		r.Start()
		for end := time.Now().Add(time.Duration(i*17) * time.Millisecond); time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		r.Kill()
	}
	r.Start()
	r.eventually("converged", func() bool { return r.is("default.web", schema.ConditionPresent) })
	list, err := netsafe.Addresses()
	r.check(err)
	var ours []string
	for _, a := range list {
		if a.Protocol == protocol {
			ours = append(ours, a.Prefix.String())
		}
	}
	if want := []string{"203.0.113.12/32", vip6 + "/128"}; !slices.Equal(ours, want) {
		t.Errorf("ours are %v, want %v", ours, want)
	}
}

func TestNetnsHundredVIPsAreMutedInOneGo(t *testing.T) {
	r := newRig(t)
	r.synced()
	r.Grant(time.Hour)
	r.Start()
	keys := make([]string, 100)
	write := func(state schema.State) {
		for i := range keys {
			keys[i] = fmt.Sprintf("default.web-%d", i)
			r.vip(keys[i], state, fmt.Sprintf("203.0.113.%d", i+1))
		}
	}
	all := func(condition string) func() bool {
		return func() bool {
			return !slices.ContainsFunc(keys, func(k string) bool { return !r.is(k, condition) })
		}
	}
	write(schema.StateActive)
	r.eventually("present", all(schema.ConditionPresent))
	r.Signal(syscall.SIGSTOP) // so that one pass sees all documents
	write(schema.StateDraining)
	r.Signal(syscall.SIGCONT)
	t.Logf("100 VIPs muted after %s", r.eventually("muted", all(schema.ConditionMuted)))
}

func TestNetnsSubcommandsAnswerFromTheSocket(t *testing.T) {
	r, _ := serving(t, time.Hour)
	table := r.Run("status")
	for _, part := range []string{"default.web", vip4, vip6, "active", "node"} {
		if !strings.Contains(table, part) {
			t.Errorf("status lacks %q:\n%s", part, table)
		}
	}
	r.Run("healthz")
	r.Run("readyz")
	t.Logf("\n%s", table)
	body, err := r.Ask("/metrics")
	r.check(err)
	for _, name := range []string{`vipod_vipd_addresses{state="present"} 2`, `vipod_vipd_fence_remaining_seconds{grant="node"} 3`,
		"vipod_vipd_reconcile_total", "vipod_vipd_documents_rejected_total 0"} {
		if !strings.Contains(body, name) {
			t.Errorf("metrics lack %s", name)
		}
	}
}
