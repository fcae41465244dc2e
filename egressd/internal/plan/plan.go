package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Plan returns the operations that bring what there is to what there shall be.
func Plan(desired Desired, actual Actual) []Op {
	var ops []Op
	for _, kind := range Kinds {
		want, wanted := desired.Tables[kind]
		have, whole := actual.Tables[kind]
		switch {
		case wanted && whole:
			ops = append(ops, difference(kind, want, have, desired)...)
		case wanted:
			ops = append(ops, AddTable{kind})
			ops = append(ops, difference(kind, want, nil, desired)...)
		case desired.Sweep && (whole || actual.Damaged[kind]):
			ops = append(ops, DelTable{kind})
		case whole:
			ops = append(ops, difference(kind, nil, have, desired)...)
		}
	}
	return ops
}

// difference returns the operations on the elements of one table.
func difference(kind Kind, want, have Table, d Desired) []Op {
	var removals, additions []Op
	sets := names(want, have) // lists before narrowed, which refers to them
	for _, set := range sets {
		if d.leaves(kind, set) && len(have[set]) > 0 {
			continue
		}
		var del, add []Element
		for key, value := range have[set] {
			wanted, ok := want[set][key]
			e := Element{kind, set, key, value}
			if ok && wanted != value && set != Lists || !ok && (d.Sweep || d.Known[e.owner()]) {
				del = append(del, e)
			}
		}
		for key, value := range want[set] {
			if old, ok := have[set][key]; !ok || old != value && set != Lists {
				add = append(add, Element{kind, set, key, value})
			}
		}
		var gone []Op
		for _, e := range sorted(del) {
			gone = append(gone, DelElement{e})
		}
		removals = append(gone, removals...) // what refers to a list goes before it
		for _, e := range sorted(add) {
			additions = append(additions, AddElement{e})
		}
	}
	return append(removals, additions...)
}

// leaves says whether a set stays as it is if it has anything: what the
// cluster's networks are is not known yet, and those that would be added could
// overlap with those that would be removed.
func (d Desired) leaves(kind Kind, set string) bool {
	return kind == Egress && strings.HasPrefix(set, Internal) && !d.Sweep && !d.Known[OwnerCluster]
}

// Owners in Desired.Known that are no pods.
const (
	// OwnerCluster stands for what Internal has.
	OwnerCluster = "cluster"
	// OwnerGuard stands for what Local and Known have.
	OwnerGuard = "guard"
	// OwnerControlPlane stands for the table balance.
	OwnerControlPlane = "control plane"
)

// owner returns whose an element is: a pod's, another Owner's, or "" for one
// that only a complete picture can judge.
func (e Element) owner() string {
	switch {
	case e.Kind == Balance:
		return OwnerControlPlane
	case e.Kind != Egress:
		return ""
	case strings.HasPrefix(e.Set, Internal):
		return OwnerCluster
	case e.Guards():
		return OwnerGuard
	}
	return e.Pod()
}

// Spares says whether the element says nothing about connections that exist:
// it is about pods that are not known, or a list, which counts by what refers
// to it.
func (e Element) Spares() bool { return e.Guards() || e.Kind == Egress && e.Set == Lists }

// Guards says whether the element is about pods that are not known.
func (e Element) Guards() bool {
	return e.Kind == Egress && (strings.HasPrefix(e.Set, Local) || strings.HasPrefix(e.Set, Known))
}

// Pod returns the pod that an element of the table egress is about, "" for
// none.
func (e Element) Pod() string {
	if e.Kind != Egress || e.Set == Lists || strings.HasPrefix(e.Set, Internal) || e.Guards() {
		return ""
	}
	pod, _, _ := strings.Cut(e.Key, " ")
	return pod
}

func names(a, b Table) []string {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func sorted(list []Element) []Element {
	slices.SortFunc(list, func(a, b Element) int { return cmp.Compare(a.Key, b.Key) })
	return list
}
