package faults

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	vip   = netip.MustParseAddr("198.51.100.200")
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// at is so many milliseconds after the start.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func claims(node string, from, to int) Event {
	return Event{At: at(from), Until: at(to), Kind: Claim, Node: node, Addr: vip, N: 3}
}

func silent(from, to int) Event {
	return Event{At: at(from), Until: at(to), Kind: Silence, Addr: vip, Text: "icmp"}
}

func owns(node string, ms int, epoch int64) Event {
	return Event{At: at(ms), Kind: Epoch, Node: node, N: epoch, Text: "default.web"}
}

// story is a fault at n1 from 1 s to 10 s, with what else happens.
func story(events ...Event) History {
	return append(History{
		{At: at(0), Kind: Watched, Addr: vip},
		{At: at(1000), Kind: Begin, Node: "n1"},
		{At: at(10000), Kind: End, Node: "n1"},
		{At: at(12000), Kind: Step, Text: "closed"},
	}, events...)
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	moves := Expectation{Outcome: Moves, Bound: 5300 * time.Millisecond, Hands: 1, Fence: 5 * time.Second}
	back := Expectation{Outcome: Back, Bound: time.Second, Hands: 1, Fence: 5 * time.Second}
	stays := Expectation{Outcome: Stays}
	for _, c := range []struct {
		name   string
		want   Expectation
		events []Event
		rules  []string // what each violation's rule contains
	}{
		{"right move", moves, []Event{claims("n1", 10, 5900), claims("n2", 6050, 12000), silent(5950, 6060)}, nil},
		{"right stay", stays, []Event{claims("n1", 10, 12000)}, nil},
		{"right silence", back, []Event{claims("n1", 10, 5900), silent(6000, 10300), claims("n2", 10200, 12000)}, nil},
		{
			"two owners in turns", moves,
			[]Event{claims("n1", 10, 5000), claims("n2", 5100, 5200), claims("n1", 5300, 5400), claims("n2", 5500, 12000)},
			[]string{"changed hands 3 times"},
		},
		{
			"two owners at one time", moves,
			[]Event{claims("n1", 10, 5500), claims("n2", 5400, 12000)},
			[]string{"two machines claim it at one time"},
		},
		{
			"two owners that the fault does not hit", Expectation{Outcome: Moves, Bound: 6 * time.Second, Hands: 1},
			[]Event{claims("n1", 10, 5000), claims("n2", 5100, 9000), claims("n3", 9000, 9001)},
			[]string{"at one time", "changed hands 2 times"},
		},
		{
			"claim after the fence", moves,
			[]Event{claims("n1", 10, 6001), claims("n2", 6050, 12000)},
			[]string{"claimed later than 5s"},
		},
		{
			"claim in the silence", back,
			[]Event{claims("n1", 10, 5000), claims("n1", 8000, 8001), claims("n1", 10100, 12000)},
			[]string{"claimed later than 5s"},
		},
		{"successor too late", moves, []Event{claims("n1", 10, 5000), claims("n2", 6400, 12000)}, []string{"after 5.4s, want 5.3s"}},
		{
			"silence over the bound", moves,
			[]Event{claims("n1", 10, 1000), claims("n2", 2000, 12000), silent(1000, 6500)},
			[]string{"silent for 5.5s"},
		},
		{"no successor", moves, []Event{claims("n1", 10, 5000)}, []string{"did not move"}},
		{"back too late", back, []Event{claims("n1", 10, 5000), claims("n1", 11500, 12000)}, []string{"back 1.5s after"}},
		{"never back", back, []Event{claims("n1", 10, 5000)}, []string{"back 2s after"}},
		{
			"moved though it must stay", stays,
			[]Event{claims("n1", 10, 2000), claims("n2", 3000, 12000)},
			[]string{"changed hands 1 times", `moved from "n1", must stay`},
		},
		{
			"moved though another node is hit", moves,
			[]Event{claims("n3", 10, 2000), claims("n2", 3000, 12000)},
			[]string{`moved from "n3", must stay`},
		},
		{
			"questions lost though it must stay", stays,
			[]Event{claims("n1", 10, 12000), {At: at(12000), Kind: Lost, Addr: vip, N: 1, Text: "icmp"}},
			[]string{"1 questions lost"},
		},
		{
			"as many questions lost as of those that no fault is about", stays,
			[]Event{
				claims("n1", 10, 12000), {At: at(12000), Kind: Lost, Addr: vip, N: 2, Text: "icmp"},
				{At: at(5000), Until: at(5100), Kind: Noise, N: 2}, silent(5000, 5340),
			},
			nil,
		},
		{
			"silence longer than the machine's", stays,
			[]Event{claims("n1", 10, 12000), {At: at(5000), Until: at(5100), Kind: Noise}, silent(5000, 5360)},
			[]string{"silent for 360ms"},
		},
		{
			"old epoch", moves,
			[]Event{owns("n1", 5, 70), claims("n1", 10, 5000), owns("n2", 5040, 69), claims("n2", 5050, 12000)},
			[]string{"old epoch"},
		},
		{
			"one epoch twice", moves,
			[]Event{owns("n1", 5, 70), claims("n1", 10, 5000), owns("n2", 5040, 70), claims("n2", 5050, 12000)},
			[]string{"old epoch"},
		},
		{
			"newer epoch", moves,
			[]Event{owns("n1", 5, 70), claims("n1", 10, 5000), owns("n2", 5040, 71), claims("n2", 5050, 12000)},
			nil,
		},
		{
			"something else touched", stays,
			[]Event{claims("n1", 10, 12000), {At: at(12000), Kind: Differs, Text: "a route"}},
			[]string{"touched"},
		},
		{
			"daemon ended", stays,
			[]Event{claims("n1", 10, 12000), {At: at(3000), Kind: Ended, Node: "n1", Text: "vipd"}},
			[]string{"1 daemons ended"},
		},
		{
			"too many requests", Expectation{Outcome: Stays, Rate: 4},
			[]Event{claims("n1", 10, 12000), {At: at(0), Until: at(10000), Kind: Requests, N: 46}},
			[]string{"4.6 requests a second"},
		},
		{
			"a stranger's claims are the fault", Expectation{Outcome: Stays, Strangers: []string{"stranger"}},
			[]Event{claims("n1", 10, 12000), claims("stranger", 2000, 3000)},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Check(story(c.events...), c.want)
			if len(got) != len(c.rules) {
				t.Fatalf("%d violations, want %q: %v", len(got), c.rules, got)
			}
			for i, v := range got {
				if !strings.Contains(v.Rule, c.rules[i]) {
					t.Errorf("violation %d is %q, want %q", i, v.Rule, c.rules[i])
				}
			}
		})
	}
}

func TestHistoryIsReadAsItWasWritten(t *testing.T) {
	h := story(claims("n1", 10, 5000), owns("n1", 5, 70))
	var file bytes.Buffer
	if err := h.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if _, err := Read(strings.NewReader(`{"kind":`)); err == nil {
		t.Error("half an event was read")
	}
}
