package tunnel

import "fmt"

// Op is one operation of a plan. It prints as the command that does it.
type Op interface {
	fmt.Stringer
	op()
}

// Operations.
type (
	// Add makes a link, down, with its alias. What is left of one that was
	// never finished goes.
	Add struct{ Name, Alias string }
	// Configure gives a device its keys, port and far end, and no other.
	Configure struct{ Tunnel Tunnel }
	// SetUp sets a link up or down, with the tunnel's MTU.
	SetUp struct {
		Name string
		Up   bool
	}
	// Route makes the link the way of everything in the tunnel's table.
	Route struct {
		Name   string
		Table  int
		Family Family
	}
	// Rule sends packets with the tunnel's mark to its table.
	Rule struct {
		Table  int
		Mark   uint32
		Family Family
	}
	// DelRule undoes Rule.
	DelRule struct{ Rule Rule }
	// Del removes a link and, with it, its routes.
	Del struct{ Name string }
)

func (Add) op()       {}
func (Configure) op() {}
func (SetUp) op()     {}
func (Route) op()     {}
func (Rule) op()      {}
func (DelRule) op()   {}
func (Del) op()       {}

// String implements fmt.Stringer.
func (o Add) String() string {
	return fmt.Sprintf("ip link add %s type wireguard && ip link set %s alias %s", o.Name, o.Name, o.Alias)
}

// String implements fmt.Stringer.
func (o Configure) String() string {
	t := o.Tunnel
	return fmt.Sprintf("wg set %s private-key %s listen-port %d peer %s endpoint %s persistent-keepalive %d allowed-ips %v",
		t.Name, t.PrivateKey, t.Port, t.PeerKey, t.Endpoint, Keepalive, t.Allowed)
}

// String implements fmt.Stringer.
func (o SetUp) String() string {
	if o.Up {
		return fmt.Sprintf("ip link set %s mtu %d up", o.Name, MTU)
	}
	return fmt.Sprintf("ip link set %s down", o.Name)
}

// String implements fmt.Stringer.
func (o Route) String() string {
	return fmt.Sprintf("ip %s route replace default dev %s table %d", o.Family, o.Name, o.Table)
}

func (o Rule) text(verb string) string {
	return fmt.Sprintf("ip %s rule %s priority %d fwmark %d table %d", o.Family, verb, RulePriority, o.Mark, o.Table)
}

// String implements fmt.Stringer.
func (o Rule) String() string { return o.text("add") }

// String implements fmt.Stringer.
func (o DelRule) String() string { return o.Rule.text("del") }

// String implements fmt.Stringer.
func (o Del) String() string { return "ip link del " + o.Name }
