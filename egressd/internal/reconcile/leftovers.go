package reconcile

import (
	"fmt"

	"github.com/vipod/vipod/shared/schema"
)

// leftoverCondition says what kube-vip left, if it did.
func (r *Reconciler) leftoverCondition() (schema.Condition, bool) {
	if len(r.Leftovers) == 0 {
		return schema.Condition{}, false
	}
	return schema.Condition{Type: "Alone", Status: schema.False, Reason: "KubeVip", Message: fmt.Sprintf(
		"kube-vip runs or has left something that --adopt-kube-vip removes: %q and %d more", r.Leftovers[0], len(r.Leftovers)-1)}, true
}
