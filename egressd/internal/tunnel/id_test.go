package tunnel_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/vipod/vipod/egressd/internal/tunnel"
)

var shape = regexp.MustCompile(`^[A-Za-z0-9_]+_p[0-9]{1,5}(_(tcp|udp|sctp))?$`)

func TestIDsOfPortsOfServices(t *testing.T) {
	for _, c := range []struct {
		namespace, name string
		port            uint16
		protocol        string
		want, legacy    string
	}{
		{"default", "dns", 53, "UDP", "default_dns_p53_udp", "default_dns_p53"},
		{"default", "dns", 53, "TCP", "default_dns_p53_tcp", "default_dns_p53"},
		{"default", "dns", 53, "", "default_dns_p53_tcp", "default_dns_p53"},
		{"default", "gtp", 65535, "SCTP", "default_gtp_p65535_sctp", "default_gtp_p65535"},
		{"a-b", "c", 80, "TCP", "a_b_c_4e84717d75bd540d_p80_tcp", "a_b_c_4e84717d75bd540d_p80"},
		{"a", "b-c", 80, "TCP", "a_b_c_b88f83c840abe581_p80_tcp", "a_b_c_b88f83c840abe581_p80"},
	} {
		if got := tunnel.ID(c.namespace, c.name, c.port, c.protocol); got != c.want {
			t.Errorf("ID of %s/%s %d/%s: %s, want %s", c.namespace, c.name, c.port, c.protocol, got, c.want)
		}
		if got := tunnel.LegacyID(c.namespace, c.name, c.port); got != c.legacy {
			t.Errorf("legacy ID: %s, want %s", got, c.legacy)
		}
	}
}

func TestIDsOfServicesThatLookAlikeDiffer(t *testing.T) {
	prefix := strings.Repeat("a", 62)
	seen := map[string][2]string{}
	for _, s := range [][2]string{
		{"a-b", "c"}, {"a", "b-c"}, {"a", "b.c"}, {prefix + "b", "x"}, {prefix + "c", "x"},
		{"x", prefix + "b"}, {"x", prefix + "c"},
	} {
		id := tunnel.ID(s[0], s[1], 80, "TCP")
		if other, ok := seen[id]; ok {
			t.Errorf("%v and %v are both %s", s, other, id)
		}
		if len(id) > tunnel.MaxID {
			t.Errorf("%s has %d bytes", id, len(id))
		}
		seen[id] = s
	}
}

func FuzzID(f *testing.F) {
	f.Add("default", "dns", uint16(53), "UDP")
	f.Add("a-b", "c", uint16(1), "")
	f.Add("", "ü", uint16(65535), "SCTP")
	f.Fuzz(func(t *testing.T, namespace, name string, port uint16, protocol string) {
		switch protocol {
		case "", "TCP", "UDP", "SCTP":
		default:
			t.Skip()
		}
		id, legacy := tunnel.ID(namespace, name, port, protocol), tunnel.LegacyID(namespace, name, port)
		for _, text := range []string{id, legacy} {
			if len(text) > tunnel.MaxID || !shape.MatchString(text) {
				t.Errorf("%q/%q %d %s: %q, %d bytes", namespace, name, port, protocol, text, len(text))
			}
		}
		if id == legacy {
			t.Errorf("%q is the id and the one before", id)
		}
	})
}
