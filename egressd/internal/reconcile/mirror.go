package reconcile

import (
	"errors"
	"fmt"
	"net"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/schema"
)

// mirror has a link's traffic copied, or not. That it cannot be is reported
// and harms nothing else.
func (r *Reconciler) mirror() {
	m := r.docs.Settings().Mirror
	if m == nil && !r.docs.Complete {
		return
	}
	from, to, err := "", "", error(nil)
	if m != nil {
		from, to = m.From, m.To
		if from == "" {
			from, err = defaultLink()
		}
	}
	changed := false
	if err == nil {
		changed, err = r.Mirror(r.docs.Settings().InstanceName).Set(from, to)
	}
	if changed && err == nil {
		r.Log.Info("mirror changed", "from", from, "to", to)
	}
	if err != nil && (r.mirrorErr == nil || r.mirrorErr.Error() != err.Error()) {
		r.Log.Error("nothing is copied", "from", from, "to", to, "err", err)
	}
	r.mirrorErr = err
}

// defaultLink returns the link of the default route, IPv4's first.
func defaultLink() (string, error) {
	routes, err := netsafe.DefaultRoutes()
	if err != nil {
		return "", err
	}
	for _, links := range []map[int]bool{routes.IPv4, routes.IPv6} {
		if len(links) > 1 {
			return "", errors.New("several links have a default route: want vip_servicesinterface to name the one whose traffic is copied")
		}
		for index := range links {
			link, err := net.InterfaceByIndex(index)
			if err != nil {
				return "", fmt.Errorf("finding the link of the default route: %w", err)
			}
			return link.Name, nil
		}
	}
	return "", errors.New("no link has a default route")
}

// mirrorCondition says whether traffic is copied, where that is asked for.
func (r *Reconciler) mirrorCondition() (schema.Condition, bool) {
	m := r.docs.Settings().Mirror
	if m == nil {
		return schema.Condition{}, false
	}
	c := schema.Condition{Type: "Mirrored", Status: schema.True, Reason: "Copied", Message: "what goes over the interface of Services is copied to " + m.To}
	if r.mirrorErr != nil {
		c.Status, c.Reason, c.Message = schema.False, "NotCopied", r.mirrorErr.Error()
	}
	return c, true
}
