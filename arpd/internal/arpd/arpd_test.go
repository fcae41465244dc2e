package arpd

import (
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/schema"
)

func TestAnActiveAddressInTheKernelIsAnnouncedInBothKinds(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		e := newElector(t)
		e.vip(t, "default.web", schema.StateActive, vip4, vip6)
		start(t, e, w)
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.False)
		began := time.Now()
		w.add(t, vip4, protocol)
		w.add(t, vip6, protocol)
		eventually(t, "request, reply and advertisement arrive", func() bool {
			return len(about(w, frame.Request, vip4)) > 0 && len(about(w, frame.Reply, vip4)) > 0 &&
				len(about(w, frame.Advertisement, vip6)) > 0
		})
		t.Logf("first request after %v, advertisement after %v",
			about(w, frame.Request, vip4)[0].at.Sub(began), about(w, frame.Advertisement, vip6)[0].at.Sub(began))
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
		eventually(t, "a second round follows", func() bool { return len(about(w, frame.Request, vip4)) > 1 })
		r := about(w, frame.Request, vip4)
		if gap := r[1].at.Sub(r[0].at); gap < time.Second {
			t.Errorf("second round after %v, want more than the neighbors' locktime of 1 s", gap)
		}
	})
}
