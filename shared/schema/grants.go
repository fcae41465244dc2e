package schema

import "time"

// Grants is until when each grant is held, on this boot's CLOCK_BOOTTIME.
type Grants map[GrantName]time.Duration

// Until reads the document; one of another boot grants nothing.
func (g *Grant) Until(boot string) Grants {
	until := Grants{}
	if g.Boot != boot {
		return until
	}
	for name, end := range g.ValidUntil {
		until[name] = time.Duration(end)
	}
	return until
}

// Left returns what is left of a grant, 0 for one that is not held.
func (g Grants) Left(name GrantName, now time.Duration) time.Duration {
	return max(g[name]-now, 0)
}

// Held returns the grants that are held.
func (g Grants) Held(now time.Duration) map[GrantName]bool {
	held := map[GrantName]bool{}
	for name, until := range g {
		if now < until {
			held[name] = true
		}
	}
	return held
}

// End returns when the first of the held grants ends, 0 when none is held.
func (g Grants) End(now time.Duration) time.Duration {
	var end time.Duration
	for name := range g.Held(now) {
		if end == 0 || g[name] < end {
			end = g[name]
		}
	}
	return end
}
