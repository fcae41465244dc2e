package reconcile

import (
	"testing"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
)

func TestRefusalThatThisNodeAloneKnowsOfIsToldByItThoughAnotherSpeaksForAll(t *testing.T) {
	for name, c := range map[string]struct{ here, speaker, told bool }{
		"known to all, and this node speaks": {speaker: true, told: true},
		"known to all, and another speaks":   {},
		"known here, and this node speaks":   {here: true, speaker: true, told: true},
		"known here, and another speaks":     {here: true, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{}
			r.out.Refusals = []plan.Refusal{{Namespace: "shop", Name: "web", Reason: plan.ReasonAddressRefused, Here: c.here}}
			state := map[kube.Event]bool{}
			r.lookAtRefusals(c.speaker, state)
			if told := len(state) > 0; told != c.told {
				t.Errorf("told: %t", told)
			}
		})
	}
}
