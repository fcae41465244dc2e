package intent_test

import (
	"bytes"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

const (
	web   = "default.web"
	other = "default.other"
)

func newReader(t *testing.T) (*statetest.Pod, *intent.Reader, *bytes.Buffer) {
	t.Helper()
	p, log := statetest.New(t), &bytes.Buffer{}
	return p, intent.NewReader(slog.New(slog.NewTextHandler(log, nil)), p.Dir, p.Boot), log
}

func TestNetnsNothingIsKnownBeforeElectorSpeaks(t *testing.T) {
	_, r, _ := newReader(t)
	d := r.Load()
	if d.Node != nil || len(d.VIPs)+len(d.Grants)+len(d.Problems) > 0 || d.Complete {
		t.Errorf("documents: %+v", d)
	}
	if d.Seen() != (schema.Observed{}) || !reflect.DeepEqual(d.Settings(), schema.Settings{}) {
		t.Error("settings without a document")
	}
	if c := d.Problems.Condition(); c.Status != schema.True {
		t.Errorf("condition: %+v", c)
	}
}

func TestNetnsCompleteNeedsEveryDocumentAndAWordOfThisBoot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*statetest.Pod) error
		want   bool
	}{
		"all is well": {func(*statetest.Pod) error { return nil }, true},
		"not synced": {func(p *statetest.Pod) error {
			n := p.Node()
			n.Synced = false
			p.WriteNode(n)
			return nil
		}, false},
		"another boot": {func(p *statetest.Pod) error {
			n := p.Node()
			n.Boot = "another"
			p.WriteNode(n)
			return nil
		}, false},
		"no node":      {func(p *statetest.Pod) error { return os.Remove(p.Path(ownership.Elector, "node")) }, false},
		"no directory": {func(p *statetest.Pod) error { return os.RemoveAll(ownership.VIPs(p.Dir, ownership.Elector)) }, false},
		"bad document": {func(p *statetest.Pod) error {
			p.WriteRaw(ownership.Elector, "vips/"+web, []byte("{"))
			return nil
		}, false},
		"another key": {func(p *statetest.Pod) error {
			p.Write(ownership.Elector, "vips/"+web, statetest.VIP(other, schema.StateActive, "eth0"))
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, r, _ := newReader(t)
			p.WriteNode(p.Node())
			p.WriteVIP(statetest.VIP(web, schema.StateActive, "eth0"))
			if err := c.change(p); err != nil {
				t.Fatal(err)
			}
			if got := r.Load().Complete; got != c.want {
				t.Errorf("complete: %t, want %t", got, c.want)
			}
		})
	}
}

func TestNetnsLastGoodDocumentsStayInForce(t *testing.T) {
	p, r, log := newReader(t)
	refused := 0
	r.Refused = func() { refused++ }
	p.WriteNode(p.Node())
	p.Grant(time.Hour)
	p.WriteVIP(statetest.VIP(web, schema.StateActive, "eth0"))
	r.Load()
	for _, name := range []string{"node", "grant", "vips/" + web} {
		p.WriteRaw(ownership.Elector, name, []byte(`{"schema":"vipod.x/9","instance":"e"}`))
	}
	for range 2 {
		d := r.Load()
		if d.Node == nil || len(d.VIPs) != 1 || !d.Complete || d.Grants.Left(schema.GrantNode, bootclock.Now()) == 0 {
			t.Errorf("documents: %+v", d)
		}
		c := d.Problems.Condition()
		for _, file := range []string{"node.json: ", "grant.json: ", "vips/default.web.json: "} {
			if c.Status != schema.False || !strings.Contains(c.Message, file) {
				t.Errorf("condition lacks %s: %+v", file, c)
			}
		}
	}
	if n := strings.Count(log.String(), "document refused"); n != 3 || refused != 3 {
		t.Errorf("logged %d times, counted %d, want 3:\n%s", n, refused, log)
	}
	if err := os.Remove(p.Path(ownership.Elector, "grant")); err != nil {
		t.Fatal(err)
	}
	if d := r.Load(); len(d.Grants) != 0 {
		t.Errorf("grants are held without their file: %v", d.Grants)
	}
}

func TestNetnsRenewalIsReadWithoutTheRest(t *testing.T) {
	p, r, _ := newReader(t)
	p.WriteNode(p.Node())
	p.Grant(time.Minute)
	r.Load()
	p.Grant(time.Hour)
	grants, changed := r.LoadGrants()
	if left := grants.Left(schema.GrantNode, bootclock.Now()); changed || left < 50*time.Minute {
		t.Errorf("changed %t, %s left", changed, left)
	}
	for name, change := range map[string]func(){
		"node":      func() { p.WriteNode(p.Node()) },
		"bad node":  func() { p.WriteRaw(ownership.Elector, "node", []byte("{")) },
		"bad grant": func() { p.WriteRaw(ownership.Elector, "grant", []byte("{")) },
	} {
		seen := r.Load().Seen()
		change()
		if _, changed := r.LoadGrants(); !changed {
			t.Errorf("%s: no change", name)
		}
		if _, changed := r.LoadGrants(); !changed {
			t.Errorf("%s: no change before it was loaded", name)
		}
		if d := r.Load(); name == "node" && d.Seen() == seen {
			t.Error("the new node document is not loaded")
		}
		if _, changed := r.LoadGrants(); changed {
			t.Errorf("%s: changed after it was loaded", name)
		}
		p.WriteNode(p.Node())
		p.Grant(time.Hour)
	}
}

func TestGrantOfAnotherBootIsExpired(t *testing.T) {
	doc := schema.Grant{Boot: "boot-b", ValidUntil: map[schema.GrantName]int64{
		schema.GrantNode: int64(time.Hour), schema.GrantControlPlane: int64(time.Minute)}}
	if g := doc.Until("boot-a"); len(g) > 0 {
		t.Errorf("another boot's grant: %v", g)
	}
	g := doc.Until("boot-b")
	if left := g.Left(schema.GrantNode, time.Minute); left != 59*time.Minute {
		t.Errorf("%s left, want 59m", left)
	}
	if end := g.End(0); end != time.Minute {
		t.Errorf("the first ends at %s", end)
	}
	if held := g.Held(time.Minute); len(held) != 1 || !held[schema.GrantNode] || g.End(time.Hour) != 0 {
		t.Errorf("at the end of one: %v", held)
	}
}

func TestConditionNamesAFewProblemsInOrder(t *testing.T) {
	p := intent.Problems{}
	var names []string
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		p.Add(n, os.ErrPermission)
		names = append(names, n)
	}
	p.Add("missing", os.ErrNotExist)
	message := p.Condition().Message
	if slices.ContainsFunc(names[:5], func(n string) bool { return !strings.Contains(message, n+": ") }) ||
		!strings.HasSuffix(message, "; and 2 more") {
		t.Errorf("message: %s", message)
	}
}
