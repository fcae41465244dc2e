package main

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLabRequestsAreTakenOff(t *testing.T) {
	w := &world{own: map[string]float64{"PUT leases": 1, "GET endpoints": 5}}
	values := w.beyond(map[string]float64{"PUT leases": 4, "GET endpoints": 1, "GET /readyz": 3})
	got := map[string]float64{}
	for _, v := range values {
		got[v.metric] = v.v
	}
	want := map[string]float64{"PUT leases": 3, "GET endpoints": 0, "GET /readyz": 3, "requests": 3, "health checks": 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBusiestStretchIsFound(t *testing.T) {
	begin := time.Unix(0, 0)
	var times []time.Time
	for _, millis := range []int{0, 10, 500, 510, 520, 599, 600} {
		times = append(times, begin.Add(time.Duration(millis)*time.Millisecond))
	}
	if got := busiest(times, 100*time.Millisecond); got != 40 {
		t.Errorf("%v a second, want 40", got)
	}
	if got := busiest(nil, time.Second); got != 0 {
		t.Errorf("%v a second, want 0", got)
	}
	if got := busiestMean([]float64{1, 2, 9, 1}, 2); got != 5.5 {
		t.Errorf("mean %v, want 5.5", got)
	}
}

func TestLineIsFitted(t *testing.T) {
	slope, deviation := fit([]point{{0, 1}, {1, 3}, {2, 5}, {3, 7}})
	if math.Abs(slope-2) > 1e-9 || deviation > 1e-9 {
		t.Errorf("slope %v, standard error %v", slope, deviation)
	}
	if _, deviation = fit([]point{{0, 1}, {1, 0}, {2, 1}, {3, 0}}); deviation < 0.1 {
		t.Errorf("standard error %v of a zigzag", deviation)
	}
}

func TestRestartsSpreadOverThreeFifthsOfTheLease(t *testing.T) {
	for trial, want := range map[int]time.Duration{1: 0, 11: 1500 * time.Millisecond, 21: 3 * time.Second} {
		if got := restartAfter(usual, trial, 21); got != want {
			t.Errorf("trial %d: %v, want %v", trial, got, want)
		}
	}
	if got := restartAfter(usual, 1, 1); got != 0 {
		t.Errorf("the only trial: %v, want 0", got)
	}
}

func TestScenariosHaveNamesAndWords(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios {
		if s.name == "" || s.what == "" || s.run == nil || s.lab.duration == 0 || seen[s.name] {
			t.Errorf("scenario %q", s.name)
		}
		seen[s.name] = true
	}
}
