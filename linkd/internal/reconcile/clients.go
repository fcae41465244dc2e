package reconcile

import (
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"github.com/vipod/vipod/linkd/internal/client"
	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// adopt takes over the leases that an earlier process reported. A report that
// cannot be read costs its lease: the server gives the same address again.
func (r *Reconciler) adopt() error {
	docs, problems, err := statefile.NewSet[schema.LinkStatus](ownership.Links(r.StateDir), os.Geteuid()).Load()
	if err != nil {
		return err
	}
	for name, err := range problems {
		r.Log.Warn("report of an earlier process refused", "file", name, "err", err)
	}
	for key, doc := range docs {
		r.last[key] = doc
		for _, l := range doc.Leases {
			if l.Boot != r.Boot {
				continue
			}
			index := 0
			for _, link := range doc.Links {
				if link.Name == l.Interface && link.Up {
					index = link.Index
				}
			}
			r.kept[clientKey{l.Interface, l.IP.Is4()}] = keptLease{fromReport(l), index}
		}
	}
	return nil
}

func fromReport(l schema.Lease) lease.Lease {
	mac, err := net.ParseMAC(l.ServerMAC)
	if err != nil {
		mac = nil // then the server is asked by broadcast
	}
	return lease.Lease{
		IP: l.IP, Bits: l.PrefixLength, Server: l.Server, ServerMAC: string(mac),
		Renew: time.Duration(l.RenewAt), Rebind: time.Duration(l.RebindAt), Expire: time.Duration(l.ValidUntil),
	}
}

func (r *Reconciler) toReport(link string, l lease.Lease) schema.Lease {
	source := schema.SourceDHCP6
	if l.IP.Is4() {
		source = schema.SourceDHCP4
	}
	return schema.Lease{
		Source: source, Interface: link, IP: l.IP, PrefixLength: l.Bits, Boot: r.Boot,
		ValidUntil: int64(l.Expire), RenewAt: int64(l.Renew), RebindAt: int64(l.Rebind),
		Server: l.Server, ServerMAC: net.HardwareAddr(l.ServerMAC).String(),
	}
}

// wanted says whether the client shall run by the documents.
func (r *Reconciler) wanted(key clientKey) bool {
	spec := r.desired.DHCP[key.link]
	return spec.Wants(key.is4)
}

// endClients ends the clients that no document wants, and those of links that
// shall carry nothing.
func (r *Reconciler) endClients() {
	for key, c := range r.clients {
		if r.wanted(key) {
			continue
		}
		s := c.Status()
		if r.needed(key.link) || !r.desired.Release[key.link] {
			c.Stop()
			if s.Held {
				r.kept[key] = keptLease{Lease: s.Lease}
			}
		} else {
			c.Release()
			r.Log.Info("lease given back", "iface", key.link, "addr", s.Lease.IP)
		}
		delete(r.clients, key)
		r.Metrics.ended(s.Counts)
	}
	if r.docs.Complete {
		maps.DeleteFunc(r.kept, func(key clientKey, _ keptLease) bool { return !r.needed(key.link) })
	}
}

// needed says whether some document needs the link, up or down.
func (r *Reconciler) needed(link string) bool {
	for _, w := range r.desired.Wants {
		if w.Name == link {
			return true
		}
	}
	return false
}

// startClients starts the clients of the links that are there, and has those
// that run follow their links.
func (r *Reconciler) startClients() {
	for _, link := range slices.Sorted(maps.Keys(r.desired.DHCP)) {
		v := r.verdicts[link]
		mac, err := net.ParseMAC(v.MAC)
		if v.Why != "" || err != nil || len(mac) != 6 {
			continue
		}
		port := client.Port{Index: v.Index, Parent: v.ParentIndex, LinkLocal: r.state.LinkLocal[v.Index]}
		for _, is4 := range []bool{true, false} {
			key := clientKey{link, is4}
			if !r.wanted(key) || !is4 && !port.LinkLocal.IsValid() {
				continue
			}
			r.startClient(key, port, configOf(r.desired.DHCP[link], string(mac), is4))
		}
	}
}

func configOf(spec schema.DHCPSpec, mac string, is4 bool) lease.Config {
	c := lease.Config{MAC: mac, Hostname: spec.Hostname, Broadcast: spec.Broadcast, Attempts: spec.Attempts}
	for _, ip := range spec.Requested {
		if ip.Is4() == is4 && !slices.Contains(spec.Declined, ip) {
			c.Requested = ip
			break
		}
	}
	return c
}

// startClient starts a client or brings one up to date. One that asks as
// somebody else now starts anew.
func (r *Reconciler) startClient(key clientKey, port client.Port, config lease.Config) {
	declined := r.desired.DHCP[key.link].Declined
	old := r.clients[key]
	switch {
	case old == nil:
		r.clients[key] = r.newClient(key, port, config)
	case old.config.MAC != config.MAC || old.config.Hostname != config.Hostname || old.config.Broadcast != config.Broadcast:
		s := old.Status()
		old.Stop()
		r.Metrics.ended(s.Counts)
		if s.Held {
			config.Requested = s.Lease.IP
		}
		r.clients[key] = r.newClient(key, port, config)
	case old.port != port:
		old.Move(port)
		old.port = port
	}
	for _, ip := range declined {
		if ip.Is4() == key.is4 {
			r.clients[key].Decline(ip)
		}
	}
}

// newClient starts a client. A lease of an earlier process on a link that has
// been up all the time is gone on with; any other is asked for again, since
// another node may have had it meanwhile.
func (r *Reconciler) newClient(key clientKey, port client.Port, config lease.Config) *running {
	o := client.Options{
		Config: config, Log: r.Log.With("iface", key.link), Is4: key.is4, Port: port, Changed: r.Changed.Fire,
	}
	if kept, ok := r.kept[key]; ok {
		if kept.index == port.Index && bootclock.Now() < kept.Expire {
			o.Resume = &kept.Lease
		} else {
			o.Requested = kept.IP
		}
		delete(r.kept, key)
	}
	return &running{DHCP: r.Client(o), config: config, port: port}
}

// stopClients ends all clients without a word to their servers.
func (r *Reconciler) stopClients() {
	for key, c := range r.clients {
		c.Stop()
		delete(r.clients, key)
	}
}
