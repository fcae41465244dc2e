package result

import (
	"math"
	"slices"
)

// Series are all values of one key.
type Series struct {
	Key
	// Values are sorted.
	Values []float64
	// Failed is how many trials of the measurement and case gave no value.
	Failed int
}

// Quantile returns the smallest value that at least the share q of the values
// do not exceed: the nearest rank, no value that was not measured. It is NaN
// without values.
func (s Series) Quantile(q float64) float64 {
	if len(s.Values) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(q*float64(len(s.Values)))) - 1
	return s.Values[max(0, min(rank, len(s.Values)-1))]
}

// P50 returns the median.
func (s Series) P50() float64 { return s.Quantile(0.5) }

// P99 returns the 99th percentile, which is the maximum of fewer than 100
// values.
func (s Series) P99() float64 { return s.Quantile(0.99) }

// Max returns the largest value.
func (s Series) Max() float64 { return s.Quantile(1) }

// Group makes series of rows, in the order in which their keys first come.
func Group(rows []Row) []Series {
	at := map[Key]int{}
	var list []Series
	for _, r := range rows {
		if r.Err != "" {
			continue
		}
		i, ok := at[r.Key]
		if !ok {
			i = len(list)
			at[r.Key] = i
			list = append(list, Series{Key: r.Key})
		}
		list[i].Values = append(list[i].Values, r.Value)
	}
	for i := range list {
		s := &list[i]
		slices.Sort(s.Values)
		s.Failed = failed(rows, s.System, s.Measurement, s.Case)
	}
	return list
}

// failed counts the trials that gave no value; an empty case is all.
func failed(rows []Row, system, measurement, kase string) (n int) {
	for _, r := range rows {
		if r.Err != "" && r.System == system && r.Measurement == measurement && (kase == "" || r.Case == kase) {
			n++
		}
	}
	return n
}

// about makes one series of what a goal is about: all cases, or one.
func about(rows []Row, g Goal) Series {
	s := Series{Key: Key{System: Subject, Measurement: g.Measurement, Case: g.Case, Metric: g.Metric}}
	for _, r := range rows {
		if r.Err != "" || r.System != Subject || r.Measurement != g.Measurement || r.Metric != g.Metric ||
			g.Case != "" && r.Case != g.Case {
			continue
		}
		s.Unit = r.Unit
		s.Values = append(s.Values, r.Value)
	}
	slices.Sort(s.Values)
	s.Failed = failed(rows, Subject, g.Measurement, g.Case)
	return s
}
