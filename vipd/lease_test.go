package main

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// lend has linkd report a lease of the VIP's IPv4 address that ends after d.
func (r *rig) lend(d time.Duration) {
	r.t.Helper()
	r.Write(ownership.Linkd, "links/default.web", &schema.LinkStatus{
		Key: "default.web", Links: []schema.LinkState{},
		Leases: []schema.Lease{{
			Source: schema.SourceDHCP4, Interface: "v0", IP: netip.MustParseAddr(vip4), PrefixLength: 24,
			Boot: r.Boot, ValidUntil: int64(bootclock.Now() + d),
		}},
	})
}

func TestNetnsALentAddressIsThereAsLongAsItsLeaseIs(t *testing.T) {
	r := newRig(t)
	links := ownership.Links(r.Dir)
	r.check(os.Mkdir(links, ownership.DirMode))
	r.check(os.Chown(links, ownership.UID(ownership.Linkd), ownership.Group))
	r.synced()
	r.Grant(time.Hour)
	doc := statetest.VIP("default.web", schema.StateActive, "v0", vip4)
	doc.Addresses[0].Source = schema.SourceDHCP4
	r.WriteVIP(doc)
	r.Start()
	r.eventually("the VIP is looked at", func() bool { _, err := r.status("default.web"); return err == nil })
	if r.has(vip4) {
		t.Error("there without a lease")
	}
	r.lend(20 * time.Second)
	r.eventually("it is there", func() bool { return r.has(vip4) })
	if a, _ := r.address(vip4); a.Valid > 20 {
		t.Errorf("it would outlive its lease: valid for %d s", a.Valid)
	}
	r.lend(time.Minute)
	r.eventually("it lives longer", func() bool { a, ok := r.address(vip4); return ok && a.Valid > 30 && a.Valid <= 60 })
	r.lend(3 * time.Second)
	r.eventually("it lives shorter", func() bool { a, ok := r.address(vip4); return ok && a.Valid <= 3 })
	r.Kill() // the kernel alone ends it
	r.eventually("it is gone", func() bool { _, ok := r.address(vip4); return !ok })
}
