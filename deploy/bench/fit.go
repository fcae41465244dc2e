package main

import "math"

// point is a value at a time.
type point struct{ x, y float64 }

// fit returns the slope of the line with the least squares through the
// points, and the slope's standard error.
func fit(points []point) (slope, deviation float64) {
	n := float64(len(points))
	var mx, my float64
	for _, p := range points {
		mx += p.x / n
		my += p.y / n
	}
	var xx, xy float64
	for _, p := range points {
		xx += (p.x - mx) * (p.x - mx)
		xy += (p.x - mx) * (p.y - my)
	}
	slope = xy / xx
	var rest float64
	for _, p := range points {
		d := p.y - my - slope*(p.x-mx)
		rest += d * d
	}
	return slope, math.Sqrt(rest / (n - 2) / xx)
}
