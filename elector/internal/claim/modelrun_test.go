package claim_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// schedules is how many random schedules a test of the model runs:
// VIPOD_SCHEDULES, or the given number.
func schedules(t *testing.T, usual int) int {
	t.Helper()
	s := os.Getenv("VIPOD_SCHEDULES")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("VIPOD_SCHEDULES: %v", err)
	}
	return n
}

func TestModelNeverTwoOwners(t *testing.T) {
	t.Parallel()
	neverTwoOwners(t, schedules(t, 500), weakness{})
}

func TestModelNeverTwoOwnersWhereTwoMachinesHaveOneNodesName(t *testing.T) {
	t.Parallel()
	neverTwoOwners(t, schedules(t, 1000)/2, weakness{twins: true})
}

func neverTwoOwners(t *testing.T, n int, weak weakness) {
	t.Helper()
	const workers = 2
	takeovers := make([]int, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for seed := w; seed < n && !t.Failed(); seed += workers {
				m := runModel(uint64(seed), weak, false)
				takeovers[w] += m.takeovers
				if m.violation != "" {
					m = runModel(uint64(seed), weak, true)
					t.Errorf("seed %d: %s\n%s", seed, m.violation, strings.Join(m.trace, "\n"))
				}
			}
		})
	}
	group.Wait()
	total := takeovers[0] + takeovers[1]
	if total < 10*n && !t.Failed() {
		t.Errorf("only %d take-overs in %d schedules: the model does not exercise the protocol", total, n)
	}
	if !t.Failed() {
		t.Logf("%d schedules, %d take-overs, never two owners", n, total)
	}
}

// TestModelFindsAMissingRule takes one rule out at a time. A model that finds
// no fault then would prove nothing by finding none with it.
func TestModelFindsAMissingRule(t *testing.T) {
	t.Parallel()
	for name, weak := range map[string]weakness{
		"forfeit on lapse":                       {rule: "forfeit"},
		"compare-and-swap":                       {noCompareAndSwap: true},
		"mute before release":                    {rule: "mute"},
		"claim decided by order of the watch":    {rule: "order"},
		"answer to the very document":            {noVersionedAck: true},
		"documents before the grant":             {grantFirst: true},
		"forfeited documents go before the plan": {keepForfeited: true},
		"forfeited documents are withdrawn":      {dropForfeited: true},
		"no report of a pass that failed":        {reportAnyway: true},
		"a twin's Lease is not ours":             {twins: true, rule: "twin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := uint64(schedules(t, 10000))
			for seed := range most {
				if m := runModel(seed, weak, false); m.violation != "" {
					t.Logf("found in schedule %d: %s", seed, m.violation)
					return
				}
			}
			t.Errorf("no fault in %d schedules without this rule", most)
		})
	}
}
