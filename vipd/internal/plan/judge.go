package plan

import (
	"net/netip"
	"slices"
)

// Verdict is how a wanted address stands.
type Verdict struct {
	Link    string
	Present bool
	// Why is the reason when it is not present.
	Why Refusal
	// Muted: no frame claims it. Fenced: none does without its grants.
	Muted, Fenced bool
}

// Judge says how each wanted address stands.
func Judge(desired Desired, actual Actual) map[netip.Addr]Verdict {
	p := newPlanner(desired, actual)
	fenced := actual.Fence.Exists
	for _, name := range p.chains() {
		fenced = fenced && slices.Contains(actual.Fence.Chains, name)
	}
	verdicts := make(map[netip.Addr]Verdict, len(desired.Wants))
	for _, w := range desired.Wants {
		ip := w.Prefix.Addr()
		v := Verdict{Link: w.Link}
		_, v.Present = p.find(w)
		v.Why = p.refusal(w)
		switch {
		case v.Why == LinkDown || v.Why == LinkMissing || v.Why == ForeignAddress:
			v.Present = false
		case v.Present:
			v.Why = ""
		case v.Why == "":
			v.Why = KernelError
		}
		v.Muted = fenced && p.muted[ip] || !p.Fence && w.Muted && len(p.ours[ip]) == 0 && !p.foreign[ip]
		v.Fenced = fenced && len(w.Grants) > 0
		for _, g := range w.Grants {
			v.Fenced = v.Fenced && p.vips[g][ip]
		}
		verdicts[ip] = v
	}
	return verdicts
}

// Leftovers returns the addresses of ours in the kernel that are not wanted
// where they are, and the link of each.
func Leftovers(desired Desired, actual Actual) map[netip.Addr]string {
	p := newPlanner(desired, actual)
	left := map[netip.Addr]string{}
	for _, op := range p.removalsOf(true) {
		left[op.Prefix.Addr()] = op.Link
	}
	return left
}
