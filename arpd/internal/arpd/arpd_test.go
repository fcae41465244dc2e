package arpd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

func TestNetnsAnActiveAddressInTheKernelIsAnnouncedInBothKinds(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		e := newElector(t)
		e.vip("default.web", schema.StateActive, vip4, vip6)
		start(t, e, w)
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.False)
		began := time.Now()
		w.add(t, vip4, protocol)
		w.add(t, vip6, protocol)
		eventually(t, "request, reply and advertisement arrive", func() bool {
			return len(about(w, frame.Request, vip4)) > 0 && len(about(w, frame.Reply, vip4)) > 0 &&
				len(about(w, frame.Advertisement, vip6)) > 0
		})
		t.Logf("first request after %v, advertisement after %v",
			about(w, frame.Request, vip4)[0].at.Sub(began), about(w, frame.Advertisement, vip6)[0].at.Sub(began))
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
		eventually(t, "a second round follows", func() bool { return len(about(w, frame.Request, vip4)) > 1 })
		r := about(w, frame.Request, vip4)
		if gap := r[1].at.Sub(r[0].at); gap < time.Second {
			t.Errorf("second round after %v, want more than the neighbors' locktime of 1 s", gap)
		}
	})
}

func TestNetnsWhatIsNotOursOrNotActiveIsNotAnnounced(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		e := newElector(t)
		e.vip("default.web", schema.StateActive, vip4)
		e.vip("default.old", schema.StateWithdrawn, vip6)
		start(t, e, w)
		w.add(t, vip4, 0) // somebody else's, by its protocol number
		w.add(t, vip6, protocol)
		c := e.condition(t, "default.web", schema.ConditionAnnounced, schema.False)
		if c.Reason != "NotPresent" {
			t.Errorf("reason %s", c.Reason)
		}
		time.Sleep(200 * time.Millisecond)
		for _, kind := range []frame.Kind{frame.Request, frame.Reply} {
			if got := about(w, kind, vip4); len(got) != 0 {
				t.Errorf("%d frames of kind %s about an address that is not ours", len(got), kind)
			}
		}
		if got := about(w, frame.Advertisement, vip6); len(got) != 0 {
			t.Errorf("%d frames about a withdrawn address", len(got))
		}
	})
}

func TestNetnsSilenceAtOnce(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, e *elector, w world){
		"when draining":             func(t *testing.T, e *elector, _ world) { e.vip("default.web", schema.StateDraining, vip4) },
		"when the document is gone": func(t *testing.T, e *elector, _ world) { e.DropVIP("default.web") },
		"when the address is gone":  func(t *testing.T, _ *elector, w world) { w.remove(t, vip4) },
		"when the grant has ended":  func(t *testing.T, e *elector, _ world) { e.Grant(time.Millisecond) },
		"when the grant is of another boot": func(t *testing.T, e *elector, _ world) {
			e.Boot = "another"
			e.Grant(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, w world) {
				e := newElector(t)
				e.vip("default.web", schema.StateActive, vip4)
				w.add(t, vip4, protocol)
				start(t, e, w)
				e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
				eventually(t, "the first frame arrives", func() bool { return len(about(w, frame.Request, vip4)) > 0 })
				lose(t, e, w)
				eventually(t, "the report says so", func() bool {
					s, ok := e.status("default.web")
					return !ok || !schema.IsTrue(s.Conditions, schema.ConditionAnnounced)
				})
				before := len(about(w, frame.Request, vip4))
				time.Sleep(1300 * time.Millisecond) // the next round would come
				if got := len(about(w, frame.Request, vip4)); got != before {
					t.Errorf("%d more frames", got-before)
				}
			})
		})
	}
}

func TestNetnsAReportAboutAMissingDocumentIsRemovedOnceElectorIsComplete(t *testing.T) {
	e, w := newElector(t), newFakeWorld()
	e.vip("default.web", schema.StateActive, vip4)
	w.add(t, vip4, protocol)
	start(t, e, w)
	e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
	e.Write(ownership.Elector, "node", &schema.Node{
		Name: "node-1", Boot: e.Boot, Synced: false, Phase: schema.PhaseRunning,
		Settings: schema.Settings{Protocol: protocol, LeaseDurationMillis: 5000, AnnounceIntervalMillis: 60000},
	})
	e.DropVIP("default.web")
	e.vip("default.other", schema.StateWithdrawn)
	e.condition(t, "default.other", schema.ConditionAnnounced, schema.False)
	if _, ok := e.status("default.web"); !ok {
		t.Error("the report was removed on an incomplete picture")
	}
	e.phase(schema.PhaseRunning)
	eventually(t, "the report is removed", func() bool { _, ok := e.status("default.web"); return !ok })
}

func TestNetnsAStrangerWhoClaimsOurAddressIsReportedAndAnsweredOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		e := newElector(t)
		e.vip("default.web", schema.StateActive, vip4, vip6)
		w.add(t, vip4, protocol)
		w.add(t, vip6, protocol)
		start(t, e, w)
		e.condition(t, "default.web", schema.ConditionConflict, schema.False)
		// Behind the burst a frame of ours can only be a defence.
		eventually(t, "the burst ends", func() bool {
			return len(about(w, frame.Reply, vip4)) == 5 && len(about(w, frame.Advertisement, vip6)) == 5
		})
		requests := len(about(w, frame.Request, vip4))
		for range 3 {
			w.say(t, craft(t, frame.Reply, vip4))
			w.say(t, craft(t, frame.Advertisement, vip6))
			time.Sleep(50 * time.Millisecond)
		}
		c := e.condition(t, "default.web", schema.ConditionConflict, schema.True)
		if c.Reason != "Claimed" {
			t.Errorf("reason %s: %s", c.Reason, c.Message)
		}
		eventually(t, "both addresses carry the stranger's MAC", func() bool {
			s, _ := e.status("default.web")
			return len(s.Addresses) == 2 && s.Addresses[0].ConflictMAC == stranger.String() &&
				s.Addresses[1].ConflictMAC == stranger.String()
		})
		time.Sleep(200 * time.Millisecond)
		if got := len(about(w, frame.Request, vip4)) - requests; got != 1 {
			t.Errorf("%d defences of %s, want 1", got, vip4)
		}
		if got := len(about(w, frame.Advertisement, vip6)) - 5; got != 1 {
			t.Errorf("%d defences of %s, want 1", got, vip6)
		}
	})
}

func TestNetnsProbing(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		e := newElector(t)
		start(t, e, w)
		e.vip("default.free", schema.StateStandby, vip4.Next(), vip6.Next())
		e.vip("default.taken", schema.StateStandby, vip4, vip6)
		eventually(t, "both are asked for", func() bool {
			return len(about(w, frame.Probe, vip4)) > 0 && len(about(w, frame.Solicitation, vip6)) > 0
		})
		w.say(t, craft(t, frame.Reply, vip4))
		c := e.condition(t, "default.taken", schema.ConditionUnclaimed, schema.False)
		if c.Reason != "AnsweredBy" {
			t.Errorf("reason %s: %s", c.Reason, c.Message)
		}
		s, _ := e.status("default.taken")
		if s.Addresses[0].ConflictMAC != stranger.String() {
			t.Errorf("answered by %q", s.Addresses[0].ConflictMAC)
		}
		e.condition(t, "default.free", schema.ConditionUnclaimed, schema.True)
		if got := len(about(w, frame.Request, vip4)); got != 0 {
			t.Errorf("%d announcements of a standby address", got)
		}
	})
}

func TestNetnsALinkThatComesBackUnderItsNameIsAnnouncedOnAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		e := newElector(t)
		e.vip("default.web", schema.StateActive, vip4)
		w.add(t, vip4, protocol)
		start(t, e, w)
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
		w.renew(t)
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.False)
		before := len(about(w, frame.Request, vip4))
		w.add(t, vip4, protocol)
		eventually(t, "announced on the new link", func() bool { return len(about(w, frame.Request, vip4)) > before })
	})
}

func TestNetnsAnUnreadableDocumentKeepsTheLastGoodOne(t *testing.T) {
	e, w := newElector(t), newFakeWorld()
	e.vip("default.web", schema.StateActive, vip4)
	w.add(t, vip4, protocol)
	start(t, e, w)
	e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
	path := filepath.Join(ownership.VIPs(e.Dir, ownership.Elector), "default.web.json")
	must(t, os.WriteFile(path, []byte(`{"schema":"vipod.vip/1","inst`), 0o640))
	eventually(t, "the daemon complains", func() bool {
		d, err := statefile.Read[schema.Daemon](filepath.Join(ownership.Dir(e.Dir, ownership.Arpd), "daemon.json"), os.Geteuid())
		c, _ := schema.FindCondition(d.Conditions, documentsReadable)
		return err == nil && c.Status == schema.False && schema.IsTrue(d.Conditions, schema.ConditionReady)
	})
	if s, _ := e.status("default.web"); !schema.IsTrue(s.Conditions, schema.ConditionAnnounced) {
		t.Errorf("no longer announced: %v", s.Conditions)
	}
}

const documentsReadable = "DocumentsReadable"

func TestNetnsStoppingForGoodRemovesAllReports(t *testing.T) {
	e, w := newElector(t), newFakeWorld()
	e.vip("default.web", schema.StateActive, vip4)
	t.Run("while running", func(t *testing.T) {
		start(t, e, w)
		e.condition(t, "default.web", schema.ConditionAnnounced, schema.False)
	})
	left, err := filepath.Glob(filepath.Join(ownership.Dir(e.Dir, ownership.Arpd), "*", "*.json"))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNetnsALinkThatWasDownIsAnnouncedOnAgain(t *testing.T) {
	w := newKernelWorld(t)
	e := newElector(t)
	e.vip("default.web", schema.StateActive, vip4)
	w.add(t, vip4, protocol)
	start(t, e, w)
	e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
	w.peer.SetUp(t, far, false) // takes the carrier away
	if c := e.condition(t, "default.web", schema.ConditionAnnounced, schema.False); c.Reason != "LinkDown" {
		t.Errorf("reason %s", c.Reason)
	}
	w.peer.SetUp(t, far, true)
	before := len(about(w, frame.Request, vip4))
	e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
	eventually(t, "announced anew", func() bool { return len(about(w, frame.Request, vip4)) > before })
}
