package result

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func row(measurement, kase, metric string, trial int, v float64) Row {
	return Row{
		Key:   Key{System: Subject, Measurement: measurement, Case: kase, Metric: metric, Unit: "ms"},
		Trial: trial, Value: v, Commit: "abc", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func failure(measurement, kase string, trial int, text string) Row {
	r := row(measurement, kase, "", trial, 0)
	r.Unit, r.Err = "", text
	return r
}

func TestRowsSurviveTheFile(t *testing.T) {
	rows := []Row{
		row("cut", "", "silence", 1, 4711.25), row("kill", "vipd", "lost, of all", 2, 0),
		failure("kill", "vipd", 3, "waiting until \"x\":\nno answer"),
	}
	path := filepath.Join(t.TempDir(), "raw", "rows.csv")
	b, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := b.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, again.Rows()); diff != "" {
		t.Error(diff)
	}
	again.Forget(Subject, "kill")
	if diff := cmp.Diff(rows[:1], again.Rows()); diff != "" {
		t.Error(diff)
	}
}

func TestFileThatIsNotOfRowsIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.csv")
	for _, text := range []string{"", "a,b\n", "\"\n", strings.Join(header, ",") + "\nvipod,m,c,one,x,ms,1,,abc,2026-01-02T03:04:05Z\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil {
			t.Errorf("no error about %q", text)
		}
	}
}

func TestQuantileIsAMeasuredValue(t *testing.T) {
	s := Series{}
	for i := range 20 {
		s.Values = append(s.Values, float64(i+1))
	}
	for _, test := range []struct{ q, want float64 }{{0, 1}, {0.05, 1}, {0.5, 10}, {0.51, 11}, {0.99, 20}, {1, 20}} {
		if got := s.Quantile(test.q); got != test.want {
			t.Errorf("quantile %v is %v, want %v", test.q, got, test.want)
		}
	}
}

func TestGoalIsMetByAllTrialsOrNotAtAll(t *testing.T) {
	goal := Goal{Measurement: "cut", Metric: "silence", Stat: Max, Limit: 10}
	for _, test := range []struct {
		name          string
		rows          []Row
		measured, met bool
	}{
		{"nothing was measured", nil, false, false},
		{"within", []Row{row("cut", "", "silence", 1, 10)}, true, true},
		{"one beyond", []Row{row("cut", "", "silence", 1, 10), row("cut", "", "silence", 2, 10.5)}, true, false},
		{"one failed", []Row{row("cut", "", "silence", 1, 10), failure("cut", "", 2, "no")}, true, false},
		{"all failed", []Row{failure("cut", "", 1, "no")}, false, false},
		{"another measurement", []Row{row("kill", "", "silence", 1, 10)}, false, false},
		{"any case", []Row{row("cut", "a", "silence", 1, 10), row("cut", "b", "silence", 1, 11)}, true, false},
	} {
		v := Judge([]Goal{goal}, test.rows)[0]
		if v.Measured != test.measured || v.Met != test.met {
			t.Errorf("%s: measured %t, met %t", test.name, v.Measured, v.Met)
		}
	}
}

func TestPeersDoNotCountForTheGoals(t *testing.T) {
	r := row("cut", "", "silence", 1, 99)
	r.System = "peer"
	if v := Judge([]Goal{{Measurement: "cut", Metric: "silence"}}, []Row{r})[0]; v.Measured {
		t.Error("a peer's value is taken for ours")
	}
}

func TestGoalsNameWhatIsMeasuredOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range Goals() {
		if g.Text == "" || g.Measurement == "" || g.Metric == "" || g.Stat == "" || seen[g.Text] {
			t.Errorf("goal %+v", g)
		}
		seen[g.Text] = true
	}
}

func TestResultsRead(t *testing.T) {
	rows := []Row{
		row("cut", "", "silence", 1, 4.2), row("cut", "", "silence", 2, 5.25), row("cut", "", "lost", 1, 0),
		failure("cut", "", 3, "waiting:\n  no answer"),
	}
	peer := row("cut", "", "silence", 1, 7700)
	peer.System = "another"
	r := Report{
		Facts: [][2]string{{"kernel", "6.1"}}, Meanings: [][2]string{{"cut", "The owner is cut off."}},
		Rows: append(rows, peer),
	}
	r.Verdicts = Judge([]Goal{
		{Text: "silence", Measurement: "cut", Metric: "silence", Stat: Max, Limit: 5, Cause: "the timer is late."},
		{Text: "lost", Measurement: "cut", Metric: "lost", Stat: Max},
		{Text: "other", Measurement: "kill", Metric: "lost", Stat: Max},
	}, r.Rows)
	var text, markdown bytes.Buffer
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.Markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"print.golden": text.String(), "results.golden": markdown.String()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
