package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

var update = flag.Bool("update", false, "write the golden files")

func meta(name string) schema.Meta {
	return schema.Meta{Schema: name, Instance: "0b3f6a52-7f2e-4c39-9f43-5d3c0f4f5b11.89abcdef01234567", Generation: 7}
}

var since = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

// full returns one document of each type with every field set.
func full() map[string]schema.Document {
	observed := schema.Observed{Instance: "writer", Generation: 3}
	conditions := []schema.Condition{{
		Type: schema.ConditionReady, Status: schema.False, Reason: "LinkDown", Message: "eth0 has no carrier", Since: since,
	}}
	return map[string]schema.Document{
		"node": &schema.Node{
			Meta: meta("vipod.node/1"), Name: "n1", Boot: "boot", Synced: true, Phase: schema.PhaseRunning,
			Components: []string{"elector", "vipd"},
			Settings: schema.Settings{
				InstanceName: "blue", Protocol: 248, LeaseDurationMillis: 5000, AnnounceIntervalMillis: 60000,
				InternalNetworks: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/25"), netip.MustParsePrefix("2001:db8:0:2::/64")},
				MetricsAddress:   ":2112", LoopbackGlobalScope: true, RoutingTable: 198,
				BGP:    &schema.BGP{AS: 65000, RouterID: netip.MustParseAddr("198.51.100.1"), Peers: []schema.BGPPeer{fullPeer()}, Listen: true},
				Mirror: &schema.Mirror{From: "eth0", To: "mirror0"},
			},
		},
		"grant": &schema.Grant{
			Meta: meta("vipod.grant/1"), Boot: "boot",
			ValidUntil: map[schema.GrantName]int64{schema.GrantNode: 123456789, schema.GrantControlPlane: 1},
		},
		"vip": &schema.VIP{
			Meta: meta("vipod.vip/1"), Key: "default.web", UID: "e5bd3f0e-6fa4-4a0d-8c3c-7f3cf3b4a9a3",
			Kind: schema.KindService, State: schema.StateActive, Grant: schema.GrantNode, Epoch: "42",
			Addresses: []schema.Address{
				{IP: netip.MustParseAddr("198.51.100.7"), PrefixLength: 32, Interface: "eth0", Source: schema.SourceStatic},
				{IP: netip.MustParseAddr("2001:db8::7"), PrefixLength: 128, Interface: "eth0", Source: schema.SourceStatic},
			},
			Announce: []schema.Announce{schema.AnnounceARP, schema.AnnounceNDP},
			BGP: &schema.PathAttributes{
				Communities: []schema.Community{65000<<16 | 100}, LargeCommunities: []schema.LargeCommunity{{65000, 1, 2}},
				LocalPref: number(200), MED: number(10),
			},
			Route: &schema.Route{Type: 1, Interface: "eth0"},
			Via:   []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:0:2::9")},
			Links: []schema.LinkSpec{{
				Kind: schema.LinkMacvlan, Name: "vip-e5bd3f0e", Parent: "eth0.200", VLAN: 200, MAC: "02:00:00:00:00:03", RPFilter: 2,
				DHCP: &schema.DHCPSpec{
					IPv4: true, IPv6: true, Hostname: "web", Requested: []netip.Addr{netip.MustParseAddr("198.51.100.7")},
					Broadcast: true, Attempts: 3, Release: true, Declined: []netip.Addr{netip.MustParseAddr("198.51.100.8")},
				},
			}},
			Firewall: &schema.Firewall{Ports: []schema.Port{{Protocol: schema.TCP, Port: 80}, {Protocol: schema.SCTP, Port: 132}}, Open: true},
			Balance:  &schema.Balance{Port: 6443, Backends: []netip.AddrPort{netip.MustParseAddrPort("198.51.100.11:6443"), netip.MustParseAddrPort("[2001:db8::11]:6443")}},
			WireGuard: &schema.WireGuard{Forwards: []schema.Forward{{
				Port: schema.Port{Protocol: schema.UDP, Port: 53}, KeepSource: true,
				Backends: []netip.AddrPort{netip.MustParseAddrPort("203.0.113.2:5353"), netip.MustParseAddrPort("[2001:db8:0:2::2]:5353")},
			}}},
		},
		"link": &schema.LinkStatus{
			Meta: meta("vipod.link/1"), Key: "default.web", Observed: observed, Conditions: conditions,
			Links: []schema.LinkState{{Name: "vip-e5bd3f0e", Index: 7, MAC: "02:00:00:00:00:03", Up: true, Owned: true}},
			Leases: []schema.Lease{{
				Source: schema.SourceDHCP4, Interface: "vip-e5bd3f0e", IP: netip.MustParseAddr("198.51.100.7"), PrefixLength: 24,
				Boot: "boot", ValidUntil: 3e9, RenewAt: 1e9, RebindAt: 2e9, Server: "198.51.100.1", ServerMAC: "02:00:00:00:00:01",
			}},
		},
		"egress": &schema.Egress{
			Meta: meta("vipod.egress/1"), Key: "default.web",
			Pods:      []netip.Addr{netip.MustParseAddr("203.0.113.2"), netip.MustParseAddr("2001:db8:0:2:1::2")},
			Elsewhere: []netip.Addr{netip.MustParseAddr("203.0.113.18")}, Gateways: []netip.Addr{netip.MustParseAddr("198.51.100.2")},
			Internal: true, IPv6Only: true, Hold: "the pod network is not known",
			Denied:  []netip.Prefix{netip.MustParsePrefix("198.51.100.0/25")},
			Allowed: []netip.Prefix{netip.MustParsePrefix("2001:db8:8::/48")},
			Ports:   []schema.Port{{Protocol: schema.UDP, Port: 53}},
			Flush: &schema.Flush{
				SourcePorts:      []schema.Port{{Protocol: schema.TCP, Port: 1024}},
				DestinationPorts: []schema.Port{{Protocol: schema.TCP, Port: 443}},
			},
			Guard: &schema.Guard{
				Networks: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")},
				Known:    []netip.Addr{netip.MustParseAddr("203.0.113.9")},
			},
		},
		"status": &schema.Status{
			Meta: meta("vipod.status/1"), Key: schema.ControlPlaneKey, Observed: observed, Conditions: conditions,
			Addresses: []schema.AddressStatus{{
				IP: netip.MustParseAddr("198.51.100.7"), Interface: "eth0", Present: true, ConflictMAC: "02:00:00:00:00:01",
			}},
		},
		"daemon": &schema.Daemon{
			Meta: meta("vipod.daemon/1"), Name: "vipd", Observed: observed, Conditions: conditions,
			Links: []schema.Link{{
				Name: "eth0", Index: 2, MAC: "02:00:00:00:00:02", Up: true,
				Addresses:   []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")},
				DefaultIPv4: true, DefaultIPv6: true,
			}},
			Tunnels: []schema.Tunnel{{Name: "wg0", VIP: netip.MustParsePrefix("198.51.100.7/32")}},
		},
	}
}

func number(n uint32) *uint32 { return &n }

func fullPeer() schema.BGPPeer {
	return schema.BGPPeer{
		Name: "tor-1", Address: netip.MustParseAddr("fe80::1"), Interface: "eth0", AS: 65001, Port: 179,
		SourceAddress: netip.MustParseAddr("198.51.100.1"), SourceInterface: "eth0", TTL: 255, MinTTL: 255,
		HoldSeconds: 30, KeepaliveSeconds: 10, RetrySeconds: 5, RestartSeconds: 120, IPv4: true, IPv6: true,
		NextHop4: netip.MustParseAddr("198.51.100.1"), NextHop6: netip.MustParseAddr("2001:db8::1"),
		Communities: []schema.Community{schema.GracefulShutdown}, LargeCommunities: []schema.LargeCommunity{{1, 2, 3}},
		LocalPref: number(100), Password: true, BFD: &schema.BFD{TXMillis: 50, RXMillis: 60, Multiplier: 3},
	}
}

// decoders returns Decode of each type.
func decoders() map[string]func([]byte) (schema.Document, error) {
	return map[string]func([]byte) (schema.Document, error){
		"node":   decoder[schema.Node],
		"grant":  decoder[schema.Grant],
		"vip":    decoder[schema.VIP],
		"status": decoder[schema.Status],
		"daemon": decoder[schema.Daemon],
		"link":   decoder[schema.LinkStatus],
		"egress": decoder[schema.Egress],
	}
}

func decoder[T any, P schema.Pointer[T]](data []byte) (schema.Document, error) {
	doc, err := schema.Decode[T, P](data)
	return P(&doc), err
}

var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
}

func TestDocumentsStandInFilesAsGolden(t *testing.T) {
	for name, doc := range full() {
		t.Run(name, func(t *testing.T) {
			have, err := schema.Encode(doc)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, have, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(have)); diff != "" {
				t.Errorf("encoding differs from %s (-want +have):\n%s", file, diff)
			}
			back, err := decoders()[name](want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(doc, back, byValue); diff != "" {
				t.Errorf("decoding %s (-want +have):\n%s", file, diff)
			}
		})
	}
}

// The files of testdata/old were written by earlier releases and never change.
func TestOldDocumentsStillRead(t *testing.T) {
	for name, decode := range decoders() {
		t.Run(name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("testdata", "old", name+"-*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no old documents: %v", err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := decode(data); err != nil {
					t.Errorf("decoding %s: %v", file, err)
				}
			}
		})
	}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeTakesOneWholeKnownDocument(t *testing.T) {
	for name, decode := range decoders() {
		good := golden(t, name)
		edit := func(old, replacement string) []byte {
			if !bytes.Contains(good, []byte(old)) {
				t.Fatalf("%s does not hold %q", name, old)
			}
			return bytes.Replace(good, []byte(old), []byte(replacement), 1)
		}
		padded := append(bytes.Clone(good), bytes.Repeat([]byte(" "), schema.MaxSize-len(good))...)
		for _, test := range []struct {
			name string
			data []byte
			want string // part of the error, "" for none
		}{
			{"as written", good, ""},
			{"unknown field", edit("{", `{"future": {"a": [1]},`), ""},
			{"largest size", padded, ""},
			{"one byte over", append(padded, ' '), "too large"},
			{"empty", nil, "EOF"},
			{"truncated", good[:len(good)/2], "EOF"},
			{"without its last byte", bytes.TrimSuffix(good, []byte("}\n")), "EOF"},
			{"doubled", append(bytes.Clone(good), good...), "data after the document"},
			{"followed by garbage", append(bytes.Clone(good), '}'), "data after the document"},
			{"unknown major", edit(name+"/1", name+"/2"), `unsupported schema: have "vipod.` + name + `/2"`},
			{"unknown major of other shape", []byte(`{"schema": "vipod.x/2", "key": 1, "node": []}`), "unsupported schema"},
			{"no schema", []byte("{}"), "unsupported schema"},
			{"null", []byte("null"), "unsupported schema"},
			{"not an object", []byte("[1]"), "decoding document"},
			{"no instance", edit("0b3f6a52-7f2e-4c39-9f43-5d3c0f4f5b11.89abcdef01234567", ""), "instance is empty"},
			{"wrong type of field", edit(`"generation": 7`, `"generation": "7"`), "decoding document"},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				_, err := decode(test.data)
				switch {
				case test.want == "" && err != nil:
					t.Errorf("error %v, want none", err)
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
					t.Errorf("error %v, want one with %q", err, test.want)
				}
			})
		}
	}
}

func TestRefusalsCanBeToldApart(t *testing.T) {
	if _, err := schema.Decode[schema.VIP](golden(t, "node")); !errors.Is(err, schema.ErrSchema) {
		t.Errorf("another type of document: %v, want ErrSchema", err)
	}
	if _, err := schema.Decode[schema.VIP](make([]byte, schema.MaxSize+1)); !errors.Is(err, schema.ErrTooLarge) {
		t.Errorf("large document: %v, want ErrTooLarge", err)
	}
}

func TestEncodeWritesNothingThatDecodeRefuses(t *testing.T) {
	doc := full()["vip"].(*schema.VIP)
	doc.UID = strings.Repeat("x", schema.MaxSize)
	if _, err := schema.Encode(doc); !errors.Is(err, schema.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	rest, err := schema.Encode(full()["vip"])
	if err != nil {
		t.Fatal(err)
	}
	doc.UID = strings.Repeat("x", schema.MaxSize-len(rest)+len("e5bd3f0e-6fa4-4a0d-8c3c-7f3cf3b4a9a3"))
	largest, err := schema.Encode(doc)
	if err != nil || len(largest) != schema.MaxSize {
		t.Fatalf("%d bytes, error %v, want the largest document", len(largest), err)
	}
	if _, err := schema.Decode[schema.VIP](largest); err != nil {
		t.Errorf("decoding the largest document: %v", err)
	}
}

func TestConditionKeepsItsTimeWhileItsStatusStays(t *testing.T) {
	later := since.Add(time.Hour)
	ready := func(status schema.ConditionStatus, reason string) schema.Condition {
		return schema.Condition{Type: schema.ConditionReady, Status: status, Reason: reason}
	}
	list := schema.SetCondition(nil, ready(schema.True, ""), since.Add(time.Microsecond))
	list = schema.SetCondition(list, schema.Condition{Type: schema.ConditionMuted, Status: schema.False}, since)
	list = schema.SetCondition(list, ready(schema.True, "Same"), later)
	if c, ok := schema.FindCondition(list, schema.ConditionReady); !ok || !c.Since.Equal(since) || c.Reason != "Same" {
		t.Errorf("same status: %+v, want the first time, in whole milliseconds, and the new reason", c)
	}
	if !schema.IsTrue(list, schema.ConditionReady) || schema.IsTrue(list, schema.ConditionMuted) || schema.IsTrue(list, "Other") {
		t.Errorf("IsTrue is wrong about %+v", list)
	}
	list = schema.SetCondition(list, ready(schema.Unknown, ""), later)
	if c, _ := schema.FindCondition(list, schema.ConditionReady); !c.Since.Equal(later) || len(list) != 2 {
		t.Errorf("other status: %+v of %d, want the new time", c, len(list))
	}
}

// fuzz checks what every decoder promises: whatever it accepts is valid, can
// be written and reads back as itself.
func fuzz[T any, P schema.Pointer[T]](f *testing.F, name string) {
	good := golden(f, name)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(append(bytes.Clone(good), good...))
	f.Add([]byte(`{"schema":"vipod.` + name + `/1","instance":"i"}`))
	f.Add([]byte(`{"SCHEMA":"vipod.` + name + `/1","Instance":"i","generation":-1,"key":"..","node":"\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := schema.Decode[T, P](data)
		if err != nil {
			var zero T
			if diff := cmp.Diff(zero, doc, byValue); diff != "" {
				t.Fatalf("a refused document was returned:\n%s", diff)
			}
			return
		}
		if err := P(&doc).Validate(); err != nil {
			t.Fatalf("an invalid document was accepted: %v", err)
		}
		out, err := schema.Encode(P(&doc))
		if errors.Is(err, schema.ErrTooLarge) {
			return // indenting and escaping made it larger
		}
		if err != nil {
			t.Fatalf("an accepted document cannot be written: %v", err)
		}
		back, err := schema.Decode[T, P](out)
		if err != nil {
			t.Fatalf("reading back: %v\n%s", err, out)
		}
		if diff := cmp.Diff(doc, back, byValue, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("reading back (-first +second):\n%s", diff)
		}
	})
}

func FuzzDecodeNode(f *testing.F)   { fuzz[schema.Node](f, "node") }
func FuzzDecodeGrant(f *testing.F)  { fuzz[schema.Grant](f, "grant") }
func FuzzDecodeVIP(f *testing.F)    { fuzz[schema.VIP](f, "vip") }
func FuzzDecodeStatus(f *testing.F) { fuzz[schema.Status](f, "status") }
func FuzzDecodeDaemon(f *testing.F) { fuzz[schema.Daemon](f, "daemon") }
func FuzzDecodeLink(f *testing.F)   { fuzz[schema.LinkStatus](f, "link") }
func FuzzDecodeEgress(f *testing.F) { fuzz[schema.Egress](f, "egress") }

func TestEveryOwnedDocumentHasAType(t *testing.T) {
	types := map[string]bool{}
	for _, doc := range full() {
		types[doc.SchemaName()] = true
	}
	for _, d := range ownership.Table() {
		for _, doc := range d.Documents {
			if !types[doc.Schema] {
				t.Errorf("%s writes %s as %s, which is not a type here", d.Name, doc.Path, doc.Schema)
			}
		}
	}
}

func TestGoldenDocumentsHoldEveryField(t *testing.T) {
	for name, doc := range full() {
		var fields map[string]any
		if err := json.Unmarshal(golden(t, name), &fields); err != nil {
			t.Fatal(err)
		}
		for _, path := range zeroFields(doc) {
			t.Errorf("%s: field %s is not set", name, path)
		}
	}
}
