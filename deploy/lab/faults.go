package lab

import (
	"context"
	"fmt"
)

// cutTable drops what is exchanged between the API server and the nodes whose
// addresses are in its sets.
const cutTable = `
table inet lab {
	set cut4 { type ipv4_addr; }
	set cut6 { type ipv6_addr; }
	chain in {
		type filter hook input priority 0;
		tcp dport 6443 ip saddr @cut4 drop
		tcp dport 6443 ip6 saddr @cut6 drop
	}
	chain out {
		type filter hook output priority 0;
		tcp sport 6443 ip daddr @cut4 drop
		tcp sport 6443 ip6 daddr @cut6 drop
	}
}
`

// makeCutTable prepares CutAPI. It is in the API server's namespace, so that
// the nodes' own tables hold only what is theirs.
func (l *Lab) makeCutTable(ctx context.Context) error { return l.nftCP(ctx, cutTable) }

func (l *Lab) nftCP(ctx context.Context, script string) error {
	_, err := run(ctx, script, "ip", "netns", "exec", l.NS("cp"), "nft", "-f", "-")
	return err
}

// Cut takes a node off the LAN so that the node does not notice: its port
// leaves the bridge, its own carrier stays up.
func (l *Lab) Cut(ctx context.Context, node string) error {
	if err := l.checkNode(node); err != nil {
		return err
	}
	if err := ipBatch(ctx, l.NS("lan"), "link set "+node+" nomaster"); err != nil {
		return fmt.Errorf("cutting %s off: %w", node, err)
	}
	return nil
}

// CutCarrier pulls the node's cable: its eth0 loses the carrier.
func (l *Lab) CutCarrier(ctx context.Context, node string) error {
	if err := l.checkNode(node); err != nil {
		return err
	}
	if err := ipBatch(ctx, l.NS("lan"), "link set "+node+" down"); err != nil {
		return fmt.Errorf("taking the carrier from %s: %w", node, err)
	}
	return nil
}

// LinkDown sets the node's eth0 down, which takes its routes and its IPv6
// addresses with it.
func (l *Lab) LinkDown(ctx context.Context, node string) error {
	if err := l.checkNode(node); err != nil {
		return err
	}
	if err := ipBatch(ctx, l.NS(node), "link set eth0 down"); err != nil {
		return fmt.Errorf("setting the link of %s down: %w", node, err)
	}
	return nil
}

// CutAPI drops all that a node and the API server send each other, and
// nothing else.
func (l *Lab) CutAPI(ctx context.Context, node string) error {
	return l.cutAPI(ctx, node, "add element inet lab cut4 { %[1]s }\nadd element inet lab cut6 { %[2]s }\n")
}

// Heal ends every fault of a node's network, however it came about.
func (l *Lab) Heal(ctx context.Context, node string) error {
	// Adding comes first, since what is not there cannot be deleted.
	err := l.cutAPI(ctx, node, "add element inet lab cut4 { %[1]s }\nadd element inet lab cut6 { %[2]s }\n"+
		"delete element inet lab cut4 { %[1]s }\ndelete element inet lab cut6 { %[2]s }\n")
	if err != nil {
		return err
	}
	addrs, err := NodeAddrs(node)
	if err != nil {
		return err
	}
	if err := ipBatch(ctx, l.NS(node), "link set eth0 up"); err != nil {
		return fmt.Errorf("healing %s: %w", node, err)
	}
	if err := ipBatch(ctx, l.NS("lan"), "link set "+node+" master br0 up"); err != nil {
		return fmt.Errorf("healing %s: %w", node, err)
	}
	setup := append(lanSetup(addrs), l.podRoutes(node)...)
	if err := ipBatch(ctx, l.NS(node), setup...); err != nil {
		return fmt.Errorf("healing %s: %w", node, err)
	}
	return nil
}

func (l *Lab) cutAPI(ctx context.Context, node, script string) error {
	if err := l.checkNode(node); err != nil {
		return err
	}
	addrs, err := NodeAddrs(node)
	if err != nil {
		return err
	}
	if err := l.nftCP(ctx, fmt.Sprintf(script, addrs.V4, addrs.V6)); err != nil {
		return fmt.Errorf("changing what %s may send to the API server: %w", node, err)
	}
	return nil
}
