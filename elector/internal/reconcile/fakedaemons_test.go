package reconcile

import (
	"context"
	"net/netip"
	"os"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// fakeVipd is a vipd and the kernel under it, with the wire for a LAN. What
// it finds it leaves alone until the documents are complete, as vipd does:
// an address of a document that vanished stays, and the fence opens over it.
type fakeVipd struct {
	n          *fakeNode
	root, vips *statefile.Writer
	docs       *statefile.Set[schema.VIP, *schema.VIP]
	kernel     map[netip.Addr]*fakeAddress
	written    map[string]bool
}

// fakeAddress is one address in the kernel and what the fence knows of it.
type fakeAddress struct {
	grant schema.GrantName
	muted bool
}

// vipd acts on elector's documents until ctx ends.
func (n *fakeNode) vipd(ctx context.Context) {
	v := &fakeVipd{
		n: n, kernel: map[netip.Addr]*fakeAddress{}, written: map[string]bool{},
		docs: statefile.NewSet[schema.VIP](ownership.VIPs(n.dir, ownership.Elector), os.Getuid()),
	}
	var err error
	if v.root, err = statefile.NewWriter(ownership.Dir(n.dir, ownership.Vipd), statefile.Instance(testBoot)); err == nil {
		v.vips, err = statefile.NewWriter(ownership.VIPs(n.dir, ownership.Vipd), statefile.Instance(testBoot))
	}
	if err != nil {
		n.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		if n.vipdUp.Load() {
			v.pass()
		}
	}
	n.wire.set(n.name, nil)
}

// pass reads the grant first and the documents after, and reports what the
// kernel does already, as vipd does.
func (v *fakeVipd) pass() {
	n := v.n
	grant, _ := statefile.Read[schema.Grant](ownership.Dir(n.dir, ownership.Elector)+"/grant.json", os.Getuid())
	node, err := statefile.Read[schema.Node](ownership.Dir(n.dir, ownership.Elector)+"/node.json", os.Getuid())
	if err != nil {
		return
	}
	list, _, err := v.docs.Load()
	bad := n.vipdBad.Load()
	acted := err == nil && !bad
	if acted {
		v.apply(node, list)
	}
	claims := map[netip.Addr]time.Duration{}
	for ip, a := range v.kernel {
		if !a.muted {
			claims[ip] = time.Duration(grant.ValidUntil[a.grant])
		}
	}
	n.wire.set(n.name, claims)
	if acted {
		v.report(list)
	}
	link := schema.Link{
		Name: "eth0", Index: 2, Up: n.linkUp.Load(), DefaultIPv4: true, DefaultIPv6: true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.200/24"), netip.MustParsePrefix("2001:db8::200/64")},
	}
	n.write(v.root, "daemon", &schema.Daemon{
		Name: "vipd", Observed: node.Seen(), Links: []schema.Link{link}, Conditions: readiness(bad),
	})
}

func readiness(bad bool) []schema.Condition {
	c := schema.Condition{Type: schema.ConditionReady, Status: schema.True}
	if bad {
		c.Status, c.Message = schema.False, "passes fail"
	}
	return []schema.Condition{c}
}

// apply makes the kernel match.
func (v *fakeVipd) apply(node schema.Node, list map[string]schema.VIP) {
	wanted, gone := map[netip.Addr]*fakeAddress{}, map[netip.Addr]bool{}
	for _, doc := range list {
		for _, a := range doc.Addresses {
			switch doc.State {
			case schema.StateActive, schema.StateDraining:
				w := wanted[a.IP]
				if w == nil {
					w = &fakeAddress{grant: doc.Grant}
					wanted[a.IP] = w
				}
				w.muted = w.muted || doc.State == schema.StateDraining
			default:
				gone[a.IP] = true
			}
		}
	}
	for ip := range v.kernel {
		if wanted[ip] == nil && (gone[ip] || node.Synced) {
			delete(v.kernel, ip)
		}
	}
	for ip, w := range wanted {
		v.kernel[ip] = w
	}
}

// report answers for every document, and for one that is gone until its
// addresses are.
func (v *fakeVipd) report(list map[string]schema.VIP) {
	for key, doc := range list {
		status := &schema.Status{Key: key, Observed: doc.Seen()}
		present, muted := schema.True, schema.True
		for _, a := range doc.Addresses {
			k := v.kernel[a.IP]
			status.Addresses = append(status.Addresses, schema.AddressStatus{IP: a.IP, Interface: a.Interface, Present: k != nil})
			if k == nil {
				present = schema.False
			}
			if k == nil || !k.muted {
				muted = schema.False
			}
		}
		status.Conditions = []schema.Condition{
			{Type: schema.ConditionPresent, Status: present}, {Type: schema.ConditionMuted, Status: muted},
		}
		v.n.write(v.vips, key, status)
		v.written[key] = true
	}
	for key := range v.written {
		if _, ok := list[key]; ok {
			continue
		}
		if err := v.vips.Remove(key); err != nil {
			v.n.t.Error(err)
		}
		delete(v.written, key)
	}
}

// arpd answers probes.
func (n *fakeNode) arpd(ctx context.Context) {
	root, err := statefile.NewWriter(ownership.Dir(n.dir, ownership.Arpd), statefile.Instance(testBoot))
	if err != nil {
		n.t.Error(err)
		return
	}
	vips, err := statefile.NewWriter(ownership.VIPs(n.dir, ownership.Arpd), statefile.Instance(testBoot))
	if err != nil {
		n.t.Error(err)
		return
	}
	docs := statefile.NewSet[schema.VIP](ownership.VIPs(n.dir, ownership.Elector), os.Getuid())
	for ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		if !n.arpdUp.Load() {
			continue
		}
		node, err := statefile.Read[schema.Node](ownership.Dir(n.dir, ownership.Elector)+"/node.json", os.Getuid())
		if err != nil {
			continue
		}
		n.write(root, "daemon", &schema.Daemon{Name: "arpd", Observed: node.Seen(), Conditions: readiness(n.arpdBad.Load())})
		list, _, err := docs.Load()
		if err != nil {
			continue
		}
		for key, doc := range list {
			status := &schema.Status{Key: key, Observed: doc.Seen()}
			kind := schema.Condition{Type: schema.ConditionUnclaimed, Status: schema.True}
			if doc.State != schema.StateStandby {
				kind = schema.Condition{Type: schema.ConditionConflict, Status: schema.False}
			}
			n.mu.Lock()
			for _, a := range doc.Addresses {
				mac := n.taken[a.IP]
				status.Addresses = append(status.Addresses, schema.AddressStatus{IP: a.IP, Interface: a.Interface, ConflictMAC: mac})
				if mac != "" && doc.State == schema.StateStandby {
					kind.Status = schema.False
				} else if mac != "" {
					kind.Status = schema.True
				}
			}
			n.mu.Unlock()
			status.Conditions = []schema.Condition{kind}
			n.write(vips, key, status)
		}
	}
}
