package reconcile

import (
	"testing"
	"time"

	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/schema"
)

func TestNextPassIsDueWhenAGrantEnds(t *testing.T) {
	const planned, end = time.Second, 2 * time.Second
	for name, c := range map[string]struct{ planned, now, want time.Duration }{
		"later":                          {planned, planned + 1, time.Second - 1},
		"while the pass is under way":    {planned, end + time.Second, time.Millisecond},
		"before: the pass knew it ended": {end, end + 1, never},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{
				now:  func() time.Duration { return c.now },
				docs: intent.Documents{Grants: schema.Grants{schema.GrantNode: end}},
			}
			if got := r.untilGrantEnds(c.planned); got != c.want {
				t.Errorf("due in %v, want %v", got, c.want)
			}
		})
	}
}
