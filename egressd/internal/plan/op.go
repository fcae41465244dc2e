package plan

import "fmt"

// Op is one operation of a plan. It prints as the command that does it.
type Op interface {
	fmt.Stringer
	op()
}

// AddTable makes a table anew, without elements, whatever is there.
type AddTable struct{ Kind Kind }

// DelTable removes a table.
type DelTable struct{ Kind Kind }

// Element is an element of a table's set.
type Element struct {
	Kind       Kind
	Set        string
	Key, Value string
}

// AddElement adds an element.
type AddElement struct{ Element }

// DelElement removes an element.
type DelElement struct{ Element }

func (AddTable) op()   {}
func (DelTable) op()   {}
func (AddElement) op() {}
func (DelElement) op() {}

// String implements fmt.Stringer.
func (o AddTable) String() string { return "nft add table inet " + o.Kind.TableName("") }

// String implements fmt.Stringer.
func (o DelTable) String() string { return "nft delete table inet " + o.Kind.TableName("") }

// String implements fmt.Stringer.
func (o AddElement) String() string {
	if o.Set == Lists {
		return fmt.Sprintf("nft add chain inet %s %s { %s; }", o.Kind.TableName(""), o.Key, o.Value)
	}
	return "nft add element " + o.Element.String()
}

// String implements fmt.Stringer.
func (o DelElement) String() string {
	if o.Set == Lists {
		return fmt.Sprintf("nft delete chain inet %s %s", o.Kind.TableName(""), o.Key)
	}
	return "nft delete element " + o.Element.String()
}

// String returns table, set and element.
func (e Element) String() string {
	text := e.Key
	if e.Value != "" {
		text += " : " + e.Value
	}
	return fmt.Sprintf("inet %s %s { %s }", e.Kind.TableName(""), e.Set, text)
}
