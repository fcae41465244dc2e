package trial

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/deploy/probe"
)

// Claims returns the frames by which somebody has claimed the address since
// the watch began, while it goes on.
func (w *Watch) Claims(addr netip.Addr) []probe.Frame {
	claims := w.capture.Claims(addr)
	for i, f := range claims {
		if f.Sender == (probe.MAC{}) {
			claims[i].Sender = f.Source // as in Stop
		}
	}
	return claims
}

// Answered says whether each target has answered each kind of question within
// the time until now.
func (w *Watch) Answered(within time.Duration) bool {
	for _, p := range w.probers {
		if !p.Answered(within) {
			return false
		}
	}
	return true
}
