package ownership_test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/ownership"
)

func TestEveryDaemonIsSomebodyElse(t *testing.T) {
	names, uids := map[string]bool{}, map[int]bool{}
	for _, d := range ownership.Table() {
		if names[d.Name] || uids[d.UID] {
			t.Errorf("%s or uid %d stands in the table twice", d.Name, d.UID)
		}
		names[d.Name], uids[d.UID] = true, true
		if d.UID <= ownership.Group {
			t.Errorf("%s has uid %d, want one above the group's number", d.Name, d.UID)
		}
		if got := ownership.UID(d.Name); got != d.UID {
			t.Errorf("UID(%s) = %d, want %d", d.Name, got, d.UID)
		}
	}
}

// TestNoPathHasTwoWriters takes patterns for what they stand for: a path that
// matches the pattern of another document has two writers.
func TestNoPathHasTwoWriters(t *testing.T) {
	writers := map[string]string{}
	for _, d := range ownership.Table() {
		for _, doc := range d.Documents {
			full := path.Join(d.Name, doc.Path)
			for other, writer := range writers {
				if meet(full, other) {
					t.Errorf("%s of %s is also %s of %s", full, d.Name, other, writer)
				}
			}
			writers[full] = d.Name
			if !filepath.IsLocal(doc.Path) || path.Ext(doc.Path) != ".json" {
				t.Errorf("%s of %s is not a JSON file in its own directory", doc.Path, d.Name)
			}
			if name, major, ok := strings.Cut(doc.Schema, "/"); !ok || !strings.HasPrefix(name, "vipod.") || major == "" {
				t.Errorf("%s has schema %q, want vipod.<type>/<major>", full, doc.Schema)
			}
		}
	}
}

func meet(a, b string) bool {
	matched := func(pattern, name string) bool {
		ok, err := path.Match(pattern, name)
		return ok || err != nil
	}
	return matched(a, b) || matched(b, a)
}

func TestEveryReadDaemonExistsAndServesItsReader(t *testing.T) {
	for _, d := range ownership.Table() {
		for _, name := range d.Reads {
			if _, ok := ownership.Lookup(name); !ok || name == d.Name {
				t.Errorf("%s reads %s, which is itself or not in the table", d.Name, name)
			}
			if !slices.Contains(ownership.Readers(name), d.UID) {
				t.Errorf("%s reads %s, whose socket does not serve it", d.Name, name)
			}
		}
	}
}

func TestReadersAreNobodyElse(t *testing.T) {
	for _, d := range ownership.Table() {
		want := []int{0, d.UID}
		for _, other := range ownership.Table() {
			if slices.Contains(other.Reads, d.Name) {
				want = append(want, other.UID)
			}
		}
		if got := ownership.Readers(d.Name); !slices.Equal(got, want) {
			t.Errorf("Readers(%s) = %v, want %v", d.Name, got, want)
		}
	}
}

func TestPrivilegesAreFew(t *testing.T) {
	var tokens []string
	for _, d := range ownership.Table() {
		if d.Token {
			tokens = append(tokens, d.Name)
		}
		most := 1
		if d.Name == ownership.Linkd {
			most = 2 // links, and DHCP on them before they have an address
		}
		if len(d.Capabilities) > most {
			t.Errorf("%s has %v, want %d capabilities at most", d.Name, d.Capabilities, most)
		}
	}
	if !slices.Equal(tokens, []string{ownership.Elector}) {
		t.Errorf("%v have an API token, want elector alone", tokens)
	}
}

func TestUnknownDaemonIsNobody(t *testing.T) {
	if _, ok := ownership.Lookup("nobody"); ok || ownership.UID("nobody") != -1 {
		t.Error("a daemon that is not in the table has a row or a uid")
	}
}

func TestTableCannotBeChangedByItsReader(t *testing.T) {
	ownership.Table()[0].UID = 0
	if ownership.Table()[0].UID == 0 {
		t.Error("a reader changed the table")
	}
}

func TestPaths(t *testing.T) {
	for got, want := range map[string]string{
		ownership.Dir("/run/vipod", "vipd"):    "/run/vipod/vipd",
		ownership.VIPs("/run/vipod", "vipd"):   "/run/vipod/vipd/vips",
		ownership.Socket("/run/vipod", "vipd"): "/run/vipod/vipd/vipd.sock",
	} {
		if got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}
}
