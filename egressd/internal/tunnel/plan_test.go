package tunnel_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/egressd/internal/tunnel"
)

var update = flag.Bool("update", false, "write the golden files anew")

const alias = "vipod-wireguard:blue"

func made(name string, n byte) tunnel.Tunnel {
	t := tunnel.Tunnel{
		Name: name, VIP: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, n}), 32), Port: 51000 + uint16(n),
		Endpoint: netip.MustParseAddrPort("203.0.113.1:51820"), Allowed: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	t.PrivateKey[0], t.PeerKey[0] = n, n+100
	if n%2 == 1 {
		t.VIP = netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", n)), 128)
	}
	return t
}

// source makes choices from bytes, so that the fuzzer can make them.
type source []byte

func (s *source) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

var names = []string{"wg0", "wg1", "wg2"}

// world is a random kernel and a random wish.
func (s *source) world() (tunnel.Desired, tunnel.Actual) {
	d := tunnel.Desired{Alias: alias, Sweep: s.pick(2) == 1, Idle: map[string]bool{}, Again: map[string]bool{}}
	a := tunnel.Actual{Links: map[string]tunnel.Link{}}
	for i, name := range names {
		t := made(name, byte(10*i+s.pick(2)))
		switch s.pick(3) {
		case 0:
			d.Tunnels = append(d.Tunnels, t)
			d.Again[name] = s.pick(4) == 0
		case 1:
			d.Idle[name] = true
		}
		if s.pick(3) == 0 {
			continue
		}
		l := tunnel.Link{Name: name, Kind: tunnel.Kind, Alias: alias, Up: s.pick(2) == 1, MTU: tunnel.MTU - s.pick(2)}
		switch s.pick(6) {
		case 0:
			l.Alias = "vipod-wireguard:green"
		case 1:
			l.Kind, l.Alias = "veth", ""
		}
		if s.pick(4) > 0 {
			old := made(name, byte(10*i+s.pick(3)))
			l.Device = tunnel.Apply(tunnel.Actual{}, tunnel.Configure{Tunnel: old}).Links[name].Device
			l.Rules, l.Routes = map[tunnel.Family]bool{}, map[tunnel.Family]bool{}
			for _, f := range tunnel.Families {
				if s.pick(2) == 1 {
					l.Rules[f] = true
				}
				if s.pick(2) == 1 && l.Up {
					l.Routes[f] = true
				}
			}
		}
		a.Links[name] = l
	}
	if s.pick(3) == 0 {
		name := tunnel.Temporary("wg0")
		a.Links[name] = tunnel.Link{Name: name, Kind: tunnel.Kind}
	}
	return d, a
}

func check(t *testing.T, data []byte) {
	s := source(data)
	d, a := s.world()
	ops := tunnel.Plan(d, a)
	if diff := cmp.Diff(fmt.Sprint(ops), fmt.Sprint(tunnel.Plan(d, a))); diff != "" {
		t.Fatalf("two plans of one world:\n%s", diff)
	}
	for i := range ops { // a crash after any operation
		part := tunnel.Apply(a, ops[:i]...)
		for name, l := range a.Links {
			if !l.Ours(alias) && !reflect.DeepEqual(part.Links[name], l) {
				t.Fatalf("%s, which is not ours, is changed by %v", name, ops[:i])
			}
		}
		converges(t, d, tunnel.Apply(part, tunnel.Plan(d, part)...), a)
	}
	converges(t, d, tunnel.Apply(a, ops...), a)
}

func converges(t *testing.T, d tunnel.Desired, after, before tunnel.Actual) {
	t.Helper()
	d.Again = nil
	if ops := tunnel.Plan(d, after); len(ops) > 0 {
		t.Fatalf("planning again gives %v", ops)
	}
	wanted := map[string]bool{}
	for _, x := range d.Tunnels {
		wanted[x.Name] = true
		l := after.Links[x.Name]
		if before.Foreign(x, alias) {
			continue
		}
		if !l.Up || l.Port != x.Port || l.PrivateKey != x.PrivateKey || !l.Rules[x.Family()] || !l.Routes[x.Family()] {
			t.Fatalf("tunnel %s is not there: %+v", x.Name, l)
		}
	}
	for name, l := range after.Links {
		if l.Ours(alias) && !wanted[name] && (d.Sweep || d.Idle[name]) {
			t.Fatalf("%s is left, which nothing wants", name)
		}
	}
	for name, l := range before.Links {
		if _, ok := after.Links[name]; !ok && !d.Sweep && !d.Idle[name] && !wanted[name] && l.Name != tunnel.Temporary("wg0") {
			t.Fatalf("%s is removed on an incomplete picture", name)
		}
	}
}

func FuzzPlan(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 64)
		for j := range seed {
			seed[j] = byte(i*31 + j*(i+7))
		}
		f.Add(seed)
	}
	f.Fuzz(check)
}

func TestPlansPrintAsGolden(t *testing.T) {
	here := func(list ...tunnel.Tunnel) tunnel.Actual {
		d := tunnel.Desired{Tunnels: list, Alias: alias}
		return tunnel.Apply(tunnel.Actual{}, tunnel.Plan(d, tunnel.Actual{})...)
	}
	other := made("wg0", 10)
	other.Port = 51999
	for _, c := range []struct {
		name    string
		desired tunnel.Desired
		actual  tunnel.Actual
	}{
		{"tunnel comes", tunnel.Desired{Tunnels: []tunnel.Tunnel{made("wg0", 10)}, Alias: alias}, tunnel.Actual{}},
		{"tunnel goes", tunnel.Desired{Alias: alias, Idle: map[string]bool{"wg0": true}}, here(made("wg0", 10))},
		{"tunnel goes before another comes", tunnel.Desired{Tunnels: []tunnel.Tunnel{made("wg1", 11)}, Alias: alias, Sweep: true}, here(made("wg2", 10))},
		{"tunnel gets another port", tunnel.Desired{Tunnels: []tunnel.Tunnel{other}, Alias: alias}, here(made("wg0", 10))},
		{"nothing to do", tunnel.Desired{Tunnels: []tunnel.Tunnel{made("wg0", 10)}, Alias: alias, Sweep: true}, here(made("wg0", 10))},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines strings.Builder
			for _, op := range tunnel.Plan(c.desired, c.actual) {
				fmt.Fprintln(&lines, op)
			}
			file := filepath.Join("testdata", strings.ReplaceAll(c.name, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), lines.String()); diff != "" {
				t.Errorf("(-golden +now):\n%s", diff)
			}
		})
	}
}
