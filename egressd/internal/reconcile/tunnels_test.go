package reconcile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/egressd/internal/wg"
	"github.com/vipod/vipod/egressd/internal/wg/wgtest"
	"github.com/vipod/vipod/shared/schema"
)

// burrow is the tunnels of a node on a kernel in memory.
type burrow struct {
	*tunnels
	t    *testing.T
	fake *wgtest.Fake
	vips map[string]schema.VIP
	seen int // handshakes
}

func describe(list ...tunnel.Tunnel) string {
	var b strings.Builder
	key := func(k tunnel.Key) string { return base64.StdEncoding.EncodeToString(k[:]) }
	for _, x := range list {
		fmt.Fprintf(&b, "%s:\n  vip: %q\n  privateKey: %s\n  peerPublicKey: %s\n  peerEndpoint: %q\n  listenPort: %d\n  allowedIPs: [",
			x.Name, x.VIP, key(x.PrivateKey), key(x.PeerKey), x.Endpoint, x.Port)
		for _, p := range x.Allowed {
			fmt.Fprintf(&b, "%q, ", p)
		}
		b.WriteString("]\n")
	}
	return b.String()
}

func newBurrow(t *testing.T) *burrow {
	b := &burrow{t: t, fake: &wgtest.Fake{}, vips: map[string]schema.VIP{}}
	b.tunnels = newTunnels(TunnelConfig{File: filepath.Join(t.TempDir(), "tunnels"), Available: func() error { return nil }},
		slog.New(slog.DiscardHandler), func(string) { b.seen++ })
	b.kernel, b.alias = b.fake, tunnel.Alias("")
	b.write(describe(wgtest.Tunnel4, wgtest.Tunnel6))
	return b
}

func (b *burrow) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.File, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// vip is a document about both tunnels' VIPs.
func (b *burrow) vip(key string, state schema.State) {
	v := schema.VIP{Key: key, State: state, Grant: schema.GrantNode, WireGuard: &schema.WireGuard{}}
	for _, x := range []tunnel.Tunnel{wgtest.Tunnel4, wgtest.Tunnel6} {
		v.Addresses = append(v.Addresses, schema.Address{IP: x.VIP.Addr()})
	}
	b.vips[key] = v
}

// pass is what the reconciler does about tunnels.
func (b *burrow) pass(complete bool) (*desired.Wanted, time.Duration) {
	b.read()
	w := desired.Of(desired.Input{
		VIPs: b.vips, Tunnels: b.list, Complete: complete, Held: map[schema.GrantName]bool{schema.GrantNode: true},
	})
	b.silence(w)
	return w, b.bring(w)
}

// up are the names of links that are up.
func (b *burrow) up() (names []string) {
	for _, name := range []string{wgtest.Tunnel4.Name, wgtest.Tunnel6.Name} {
		if b.fake.State.Links[name].Up {
			names = append(names, name)
		}
	}
	return names
}

func (b *burrow) expect(when string, up int, status schema.ConditionStatus, reason string) {
	b.t.Helper()
	w, _ := b.pass(false)
	if n := len(b.up()); n != up {
		b.t.Errorf("%s: %d tunnels are up, want %d", when, n, up)
	}
	if c := b.condition(w, b.vips["a.a"]); c.Status != status || c.Reason != reason {
		b.t.Errorf("%s: %s %s %q, want %s %s", when, c.Status, c.Reason, c.Message, status, reason)
	}
}

func TestTunnelsFollowDocuments(t *testing.T) {
	b := newBurrow(t)
	b.vip("a.a", schema.StateActive)
	b.expect("active", 2, schema.True, schema.TunnelSilent)
	b.vip("a.a", schema.StateDraining)
	b.expect("draining", 0, schema.False, "NotActive")
	b.vip("a.a", schema.StateActive)
	b.expect("active again", 2, schema.True, schema.TunnelSilent)
	delete(b.vips, "a.a")
	if b.pass(false); len(b.up()) != 2 {
		t.Errorf("a document that is absent took tunnels away on an incomplete picture, left are %v", b.up())
	}
	if b.pass(true); len(b.fake.State.Links) > 0 {
		t.Errorf("nothing wants %v", b.fake.State.Links)
	}
	if _, wait := b.pass(true); wait != 0 {
		t.Errorf("without a tunnel it comes back after %s", wait)
	}
}

func TestBadFileKeepsTunnelsAndGoodOneIsFollowed(t *testing.T) {
	b := newBurrow(t)
	b.vip("a.a", schema.StateActive)
	b.expect("at first", 2, schema.True, schema.TunnelSilent)
	b.write("wg4: [")
	b.expect("bad file", 2, schema.True, schema.TunnelSilent)
	if b.problem == nil {
		t.Error("no problem with the file")
	}
	b.write(describe(wgtest.Tunnel4))
	b.expect("a tunnel is missing", 1, schema.Unknown, "NoTunnel")
	moved := wgtest.Tunnel4
	moved.Endpoint = netip.MustParseAddrPort("198.51.100.9:9")
	b.fake.Done = nil
	b.write(describe(moved, wgtest.Tunnel6))
	b.expect("back, and the other far end has moved", 2, schema.True, schema.TunnelSilent)
	if got := b.fake.State.Links["wg4"].Peers[0].Endpoint; got != moved.Endpoint {
		t.Errorf("the far end is at %s", got)
	}
	if err := os.Remove(b.File); err != nil {
		t.Fatal(err)
	}
	b.expect("no file", 0, schema.False, "NoTunnel")
}

func TestOneTunnelThatFailsLeavesTheOtherAlone(t *testing.T) {
	b := newBurrow(t)
	b.vip("a.a", schema.StateActive)
	b.fake.Fail = func(op tunnel.Op) error {
		if o, ok := op.(tunnel.Add); ok && o.Name == "wg4" {
			return wg.ErrNoWireGuard
		}
		return nil
	}
	b.expect("one fails", 1, schema.Unknown, "KernelError")
	if _, wait := b.pass(false); wait == 0 || wait > 20*time.Second {
		t.Errorf("it comes back after %s", wait)
	}
	b.fake.Fail = nil
	b.expect("it works again", 2, schema.True, schema.TunnelSilent)
}

func TestTunnelThatCannotBeTakenAwayIsNotSaidToBeDown(t *testing.T) {
	b := newBurrow(t)
	b.vip("a.a", schema.StateActive)
	b.expect("active", 2, schema.True, schema.TunnelSilent)
	b.fake.Fail = func(op tunnel.Op) error {
		if _, ok := op.(tunnel.Del); ok {
			return errors.New("a test")
		}
		return nil
	}
	b.vip("a.a", schema.StateDraining)
	w, _ := b.pass(false)
	if c := b.condition(w, b.vips["a.a"]); c.Status == schema.False {
		t.Errorf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

func TestLinkOfSomebodyElseIsReportedAndStays(t *testing.T) {
	b := newBurrow(t)
	b.fake.State.Links = map[string]tunnel.Link{"wg4": {Name: "wg4", Kind: tunnel.Kind, Up: true}}
	b.vip("a.a", schema.StateActive)
	b.expect("a foreign link", 2, schema.Unknown, "ForeignLink")
	b.vips = map[string]schema.VIP{}
	b.pass(true)
	if l := b.fake.State.Links["wg4"]; l.Name == "" || l.Port != 0 {
		t.Errorf("the foreign link is %+v", l)
	}
}

// shake has the far end answer.
func (b *burrow) shake(ago time.Duration) {
	for name, l := range b.fake.State.Links {
		l.Peers[0].Handshake = ago
		b.fake.State.Links[name] = l
	}
}

func TestHandshakesSayHowATunnelIs(t *testing.T) {
	b := newBurrow(t)
	b.vip("a.a", schema.StateActive)
	b.pass(false)
	b.shake(3 * time.Second)
	b.expect("the far end answers", 2, schema.True, schema.TunnelConnected)
	b.shake(4 * time.Minute)
	b.expect("it does not any more", 2, schema.True, schema.TunnelSilent)
	for i := range stormCount {
		b.shake(time.Duration(10+i*10) * time.Second)
		b.pass(false)
	}
	b.shake(time.Second)
	b.expect("handshakes without end", 2, schema.True, schema.TunnelContested)
	if b.seen < 2*stormCount {
		t.Errorf("%d handshakes were seen", b.seen)
	}
}

func TestTunnelsWithOneKeyAreToldOf(t *testing.T) {
	b := newBurrow(t)
	second := wgtest.Tunnel6
	second.PrivateKey, second.PeerKey = wgtest.Tunnel4.PrivateKey, wgtest.Tunnel4.PeerKey
	b.write(describe(wgtest.Tunnel4, second))
	b.vip("a.a", schema.StateActive)
	b.expect("one key twice", 2, schema.True, schema.TunnelContested)
}

func TestKernelWithoutWireGuardHasNoTunnelsToReport(t *testing.T) {
	b := newBurrow(t)
	b.pass(false)
	if n := len(b.documents()); n != 2 {
		t.Errorf("%d tunnels are reported", n)
	}
	b.Available = func() error { return wg.ErrNoWireGuard }
	b.pass(false)
	if n := len(b.documents()); n != 0 || b.lacking == nil {
		t.Errorf("%d tunnels are reported, lacking: %v", n, b.lacking)
	}
}
