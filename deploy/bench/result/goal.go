package result

import "math"

// Subject is the system that the goals are for.
const Subject = "vipod"

// Stat is which number of a series a goal is about.
type Stat string

// The numbers of a series.
const (
	P50 Stat = "p50"
	P99 Stat = "p99"
	Max Stat = "max"
)

// Goal is a bound on one number of a series.
type Goal struct {
	// Text says what shall be, without the number.
	Text string
	// Measurement, Case ("" for all) and Metric choose the series.
	Measurement, Case, Metric string
	Stat                      Stat
	// Limit is the largest value that meets the goal, in the series' unit.
	Limit float64
	// Least says that Limit is the smallest value instead.
	Least bool
	// Cause is why the goal is missed and what it would take, where that is
	// known. It is shown only while the goal is missed.
	Cause string
}

// Verdict is what became of a goal.
type Verdict struct {
	Goal
	Series Series
	Value  float64
	// Measured is false when there are no values.
	Measured bool
	Met      bool
}

// Judge holds the goals against rows. A goal of which a trial failed is not
// met: the trial's values are not known.
func Judge(goals []Goal, rows []Row) []Verdict {
	verdicts := make([]Verdict, len(goals))
	for i, g := range goals {
		s := about(rows, g)
		v := Verdict{Goal: g, Series: s, Measured: len(s.Values) > 0}
		switch g.Stat {
		case P50:
			v.Value = s.P50()
		case P99:
			v.Value = s.P99()
		default:
			v.Value = s.Max()
		}
		if g.Least && g.Stat == Max { // the worst is the smallest
			v.Value = s.Quantile(0)
		}
		within := v.Value <= g.Limit
		if g.Least {
			within = v.Value >= g.Limit
		}
		v.Met = v.Measured && within && s.Failed == 0 && !math.IsNaN(v.Value)
		verdicts[i] = v
	}
	return verdicts
}
