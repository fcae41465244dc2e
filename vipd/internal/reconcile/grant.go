package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

const (
	// slack is how long giving a grant to the kernel may take. The kernel
	// counts from when it gets it, so what it takes is added to the grant;
	// elector's margin covers this much and more.
	slack = 20 * time.Millisecond
	// attempts to give a grant within slack.
	attempts = 5
)

// prolong is the way of most wake-ups: elector has renewed, and every grant
// that was held is held still. It gives the kernel the new times and looks at
// nothing else. It returns false when there is more to do.
func (r *Reconciler) prolong() bool {
	grants, changed := r.reader.LoadGrants()
	if changed || r.passErr != nil || !r.fence {
		return false
	}
	t := now()
	if !maps.Equal(grants.Held(t), r.given.Held(t)) {
		return false
	}
	if r.give(grants) != nil {
		return false
	}
	r.docs.Grants = grants // a pass that is under way gives no older ones
	return true
}

// give brings the kernel's grants to those.
func (r *Reconciler) give(grants schema.Grants) error {
	t := now()
	for _, g := range plan.Grants {
		open := slices.Sorted(slices.Values(r.actual.Fence.Open[g]))
		held := grants.Left(g, t) > 0
		everywhere := slices.Equal(open, slices.Sorted(slices.Values(r.actual.Fence.Chains)))
		if held && r.given[g] == grants[g] && everywhere || !held && len(open) == 0 {
			r.note(g, grants[g], r.actual.Fence.Open[g])
			continue
		}
		if err := r.giveOne(g, grants[g]); err != nil {
			return err
		}
	}
	return nil
}

// keepOpen prolongs the grants that never lapsed and opens no other.
func (r *Reconciler) keepOpen(grants schema.Grants) error {
	t, still := now(), schema.Grants{}
	for _, g := range plan.Grants {
		if r.given.Left(g, t) > 0 {
			still[g] = grants[g]
		}
	}
	return r.give(still)
}

// giveOne gives one grant and then looks at the clock: this process may have
// been stopped between reading the clock and telling the kernel, or be so
// slow that the grant has ended. Then the fence closes at once.
func (r *Reconciler) giveOne(g plan.Grant, until time.Duration) error {
	links := r.actual.Fence.Chains
	if !r.actual.Fence.Exists || len(links) == 0 {
		r.note(g, until, nil)
		return nil
	}
	for range attempts {
		before := now()
		if until <= before {
			return r.shut(g, until)
		}
		if err := r.kernel.SetGrant(g, links, until-before); err != nil {
			r.note(g, 0, nil)
			return err
		}
		switch after := now(); {
		case after >= until:
			return r.shut(g, until)
		case after-before <= slack:
			r.note(g, until, links)
			return nil
		}
	}
	if err := r.shut(g, 0); err != nil {
		return err
	}
	return fmt.Errorf("giving grant %s: slower than %s, %d times", g, slack, attempts)
}

// shut closes the fence for a grant.
func (r *Reconciler) shut(g plan.Grant, until time.Duration) error {
	err := r.kernel.SetGrant(g, r.actual.Fence.Chains, 0)
	r.note(g, until, nil)
	return err
}

// note remembers what the kernel was given.
func (r *Reconciler) note(g plan.Grant, until time.Duration, links []string) {
	given, open := schema.Grants{}, map[plan.Grant][]string{}
	for _, x := range plan.Grants {
		given[x], open[x] = r.given[x], r.actual.Fence.Open[x]
	}
	given[g], open[g] = until, links
	r.given, r.actual.Fence.Open = given, open
	r.Metrics.grants.Store(&given)
}
