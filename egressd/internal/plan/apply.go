package plan

import "maps"

// Apply returns what there is after the operations: the model that the kernel
// is held to.
func Apply(actual Actual, ops ...Op) Actual {
	next := Actual{Tables: maps.Clone(actual.Tables), Damaged: maps.Clone(actual.Damaged)}
	if next.Tables == nil {
		next.Tables = Tables{}
	}
	cloned := map[Kind]map[string]bool{} // what of next is its own
	table := func(kind Kind, set string) Elements {
		if cloned[kind] == nil {
			cloned[kind] = map[string]bool{}
			if next.Tables[kind] = maps.Clone(next.Tables[kind]); next.Tables[kind] == nil {
				next.Tables[kind] = Table{}
			}
		}
		if !cloned[kind][set] {
			cloned[kind][set] = true
			if next.Tables[kind][set] = maps.Clone(next.Tables[kind][set]); next.Tables[kind][set] == nil {
				next.Tables[kind][set] = Elements{}
			}
		}
		return next.Tables[kind][set]
	}
	for _, op := range ops {
		switch o := op.(type) {
		case AddTable:
			next.Tables[o.Kind] = Table{}
			cloned[o.Kind] = map[string]bool{}
			delete(next.Damaged, o.Kind)
		case DelTable:
			delete(next.Tables, o.Kind)
			delete(next.Damaged, o.Kind)
			delete(cloned, o.Kind)
		case AddElement:
			table(o.Kind, o.Set)[o.Key] = o.Value
		case DelElement:
			delete(table(o.Kind, o.Set), o.Key)
		}
	}
	return next
}
