package kernel

import (
	"fmt"

	"github.com/google/nftables"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// field is a part of an element's key or value.
type field struct {
	kind     string
	datatype nftables.SetDatatype
}

var (
	mark  = field{"mark", nftables.TypeMark}
	addr4 = field{"addr", nftables.TypeIPAddr}
	addr6 = field{"addr", nftables.TypeIP6Addr}
	proto = field{"proto", nftables.TypeInetProto}
	port  = field{"port", nftables.TypeInetService}
	net4  = field{"net", nftables.TypeIPAddr}
	net6  = field{"net", nftables.TypeIP6Addr}
	jump  = field{"jump", nftables.TypeVerdict}
	// ifname is the name of a link.
	ifname = field{"ifname", nftables.TypeIFName}
)

// setSpec is the shape of a set, or of a map if it has a value.
type setSpec struct {
	name       string
	key, value []field
	// comment says that the value of an element is its comment.
	comment bool
	// timeout says that elements end by themselves, and are none of the plan's.
	timeout bool
}

// interval says whether elements are ranges.
func (s *setSpec) interval() bool {
	last := s.key[len(s.key)-1]
	return last.kind == net4.kind
}

// alone says whether elements are ranges of one field. The kernel keeps those
// as a first element and one behind the last.
func (s *setSpec) alone() bool { return s.interval() && len(s.key) == 1 }

// jumps says whether the values are chains.
func (s *setSpec) jumps() bool { return len(s.value) == 1 && s.value[0].kind == jump.kind }

// perFamily returns the same set for both families.
func perFamily(name string, key4, key6, value4, value6 []field) []setSpec {
	return []setSpec{{name: name + "4", key: key4, value: value4}, {name: name + "6", key: key6, value: value6}}
}

func concat(lists ...[]setSpec) (all []setSpec) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func fields(f ...field) []field { return f }

// shapes are the sets of every table.
var shapes = map[plan.Kind][]setSpec{
	plan.Egress: concat(
		perFamily(plan.Pods, fields(addr4), fields(addr6), nil, nil),
		perFamily(plan.VIPs, fields(addr4), fields(addr6), fields(addr4), fields(addr6)),
		perFamily(plan.Via, fields(addr4), fields(addr6), fields(mark), fields(mark)),
		perFamily(plan.Held, fields(addr4), fields(addr6), nil, nil),
		perFamily(plan.Internal, fields(net4), fields(net6), nil, nil),
		perFamily(plan.Everywhere, fields(addr4), fields(addr6), nil, nil),
		perFamily(plan.Narrowed, fields(addr4), fields(addr6), fields(jump), fields(jump)),
		perFamily(plan.Local, fields(net4), fields(net6), nil, nil),
		perFamily(plan.Known, fields(addr4), fields(addr6), nil, nil)),
	plan.Firewall: concat(
		perFamily(plan.Guarded, fields(addr4), fields(addr6), nil, nil),
		perFamily(plan.Open, fields(addr4, proto, port), fields(addr6, proto, port), nil, nil)),
	plan.Balance: concat(
		perFamily(plan.Frontends, fields(addr4, port), fields(addr6, port), nil, nil),
		perFamily(plan.FrontPorts, fields(port), fields(port), nil, nil),
		perFamily(plan.Backends, fields(addr4, port), fields(addr6, port), nil, nil),
		perFamily(plan.Slots, fields(mark), fields(mark), fields(addr4, port), fields(addr6, port))),
	plan.Wireguard: wireguardSets,
}

// shape returns the shape of a table's set.
func shape(kind plan.Kind, name string) (*setSpec, error) {
	for i := range shapes[kind] {
		if shapes[kind][i].name == name {
			return &shapes[kind][i], nil
		}
	}
	return nil, fmt.Errorf("table %s has no set %q", kind, name)
}

// nft returns the set as the library has it.
func (s *setSpec) nft(t *nftables.Table) (*nftables.Set, error) {
	key, err := datatype(s.key)
	if err != nil {
		return nil, fmt.Errorf("describing set %s: %w", s.name, err)
	}
	set := &nftables.Set{Table: t, Name: s.name, KeyType: key, Interval: s.interval(), Concatenation: len(s.key) > 1, HasTimeout: s.timeout}
	if len(s.value) > 0 {
		set.IsMap = true
		if set.DataType, err = datatype(s.value); err != nil {
			return nil, fmt.Errorf("describing map %s: %w", s.name, err)
		}
	}
	return set, nil
}

func datatype(list []field) (nftables.SetDatatype, error) {
	if len(list) == 1 {
		return list[0].datatype, nil
	}
	var types []nftables.SetDatatype
	for _, f := range list {
		types = append(types, f.datatype)
	}
	return nftables.ConcatSetType(types...)
}
