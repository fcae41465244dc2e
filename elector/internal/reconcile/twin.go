package reconcile

import (
	"fmt"
	"time"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/kube"
)

// aboutTwin says for people that another machine has this node's name.
func (r *Reconciler) aboutTwin() string {
	return fmt.Sprintf("another machine, %s, is node %s as well and renews its Lease %s; give each node a name of its own (vip_nodename)",
		config.Quote(r.writer), r.Config.NodeName, kube.LeaseName(r.Config.NodeName))
}

// lookAtTwin is look beside another machine of this node's name: what stands
// in Services under that name is the other one's to keep.
func (r *Reconciler) lookAtTwin(now time.Duration) {
	was := r.observe
	r.observe = newObserve()
	r.told, r.observe.next, r.egressdUntil = was.told, was.next, was.egressdUntil
	r.status.keep(map[string]bool{})
	r.tellState(map[kube.Event]bool{{
		About: aboutNode(r.Config.NodeName), Warning: true, Reason: "NodeNameTaken", Action: "Claiming",
		Message: "this machine serves nothing: " + r.aboutTwin(),
	}: true})
	r.measure(now)
}
