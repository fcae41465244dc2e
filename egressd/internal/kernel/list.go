package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// addList makes the chain of a list. Each rule has its elements in a set of
// its own, without a name, which nobody can change.
func (t *tables) addList(c *nftables.Conn, e plan.Element) error {
	table := t.nft(e.Kind)
	chain := &nftables.Chain{Table: table, Name: e.Key}
	rules, err := plan.ParseRules(e.Value)
	if err != nil {
		return fmt.Errorf("making list %s: %w", e.Key, err)
	}
	c.AddChain(chain)
	for i, mark := range listMarks(e.Key, len(rules)) {
		exprs, err := listRule(c, table, rules[i])
		if err != nil {
			return fmt.Errorf("making list %s: %w", e.Key, err)
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs, UserData: mark})
	}
	return nil
}

// listMarks are the comments of a list's rules. The name stands for what they
// say, see chain.marks.
func listMarks(name string, rules int) (list [][]byte) {
	for i := range rules {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d of %d", name, i, rules))
		list = append(list, userdata.AppendString(nil, userdata.TypeComment, "vipod "+hex.EncodeToString(sum[:6])))
	}
	return list
}

// listRule makes the set of a rule and returns its expressions:
//
//	daddr in the networks accept
//	daddr not in the networks accept
//	l4proto . dport not in the ports accept
func listRule(c *nftables.Conn, table *nftables.Table, r plan.ListRule) ([]expr.Any, error) {
	accept := verdict(expr.VerdictAccept)
	var packet match
	spec := &setSpec{key: fields(proto, port)}
	switch r.Family {
	case "":
		packet = match{l4proto(reg0), dport(reg0 + 1)}
	default:
		f := families[0]
		spec.key = fields(net4)
		if r.Family == families[1].suffix {
			f, spec.key = families[1], fields(net6)
		}
		if len(r.Elements) == 0 {
			return join(f.is(), accept), nil
		}
		packet = append(f.is(), f.destination())
	}
	set, err := spec.nft(table)
	if err != nil {
		return nil, err
	}
	set.Anonymous, set.Constant = true, true
	var values []nftables.SetElement
	for _, text := range r.Elements {
		e, err := spec.encode(text, "")
		if err != nil {
			return nil, err
		}
		values = append(values, e...)
	}
	if err := c.AddSet(set, values); err != nil {
		return nil, err
	}
	return join(packet, match{&expr.Lookup{SourceRegister: reg0, SetName: set.Name, SetID: set.ID, Invert: r.Not}}, accept), nil
}
