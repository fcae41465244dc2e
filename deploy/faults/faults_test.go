package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

var (
	full = flag.Bool("full", false, "every case, in its long form")
	only = flag.String("case", "", "only cases that match this regular expression")
	out  = flag.String("out", filepath.Join("..", "..", ".cache", "faults"), "where the histories are kept")
)

// envJanitor makes the test binary the janitor of the lab that it names.
const envJanitor = "VIPOD_FAULTS_JANITOR"

// TestMain takes the lab down however the tests end.
func TestMain(m *testing.M) {
	if name := os.Getenv(envJanitor); name != "" {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the other end's process
		if lab.Down(name) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// startJanitor starts the janitor of a lab; release ends and awaits it.
func startJanitor(name string) (release func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envJanitor+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the janitor: %w", err)
	}
	return func() error { return errors.Join(pipe.Close(), cmd.Wait()) }, nil
}

// newWorld makes a lab in which vipod runs on every node. Where none can run
// the test is skipped, or fails if it must not be.
func newWorld(t *testing.T) *World {
	t.Helper()
	bin := os.Getenv("VIPOD_BIN_DIR")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	if err := lab.Check(lab.Options{BinDir: bin}); err != nil {
		if os.Getenv("VIPOD_REQUIRE_NETNS") == "1" {
			t.Fatalf("no lab can run here: %v", err)
		}
		t.Skipf("no lab can run here: %v", err)
	}
	name := "faults" + strconv.FormatInt(int64(os.Getpid()), 36)
	release, err := startJanitor(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Errorf("the janitor: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster, err := trial.Start(ctx, trial.Options{
		Name: name, Root: filepath.Join("..", ".."), Bin: bin, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Down(); err != nil {
			t.Errorf("taking the lab down: %v", err)
		}
	})
	w := NewWorld(cluster, *full)
	if err := w.canaries(ctx); err != nil {
		t.Fatalf("putting canaries on the nodes: %v", err)
	}
	return w
}

// twice runs a fault again when nothing was wrong but times. Others use this
// machine too: what is about time has to come twice, what is about safety may
// not come once.
func twice(t *testing.T, run func() Result) Result {
	r := run()
	if (r.Verdict() == "WRONG" || r.Verdict() == "FAILED") && r.Timed() {
		t.Logf("again, since only times are wrong:\n%s", Table([]Result{r}))
		r = run()
	}
	return r
}

func TestFaultsHaveTheirRightOutcome(t *testing.T) {
	w := newWorld(t)
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	begin := time.Now()
	for _, c := range Cases() {
		if !chosen.MatchString(c.Name) || c.Long && !*full {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			r := twice(t, func() Result { return w.Run(ctx, c, *out) })
			results = append(results, r)
			if r.Verdict() != "ok" {
				t.Errorf("\n%s", Table([]Result{r}))
			}
		})
	}
	results = append(results, atSteps(t, w, chosen)...)
	fmt.Printf("\n%d faults in %v\n\n%s\nnot run:\n", len(results), time.Since(begin).Round(time.Second), Table(results))
	for _, u := range NotRun() {
		fmt.Printf("    %s: %s\n", u.Name, u.Why)
	}
}

// fewSteps is at how many steps a daemon is killed in the short form.
const fewSteps = 8

// atSteps kills daemons at each step that was recorded, or at some of them.
func atSteps(t *testing.T, w *World, chosen *regexp.Regexp) (results []Result) {
	t.Run("steps", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if !chosen.MatchString("SIGKILL at") {
			t.Skip("not chosen")
		}
		steps, err := w.Steps(ctx)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%d steps of %s:\n", len(steps), stepNode)
		for _, s := range steps {
			fmt.Println("   ", s)
		}
		every := 1
		if !*full {
			every = max(1, len(steps)/fewSteps)
		}
		for i := every / 2; i < len(steps); i += every {
			r := twice(t, func() Result { return w.KillAt(ctx, steps[i], *out) })
			results = append(results, r)
			if errors.Is(r.Err, errNotReached) {
				t.Logf("%s: %v", r.Case.Name, r.Err)
			} else if r.Verdict() != "ok" {
				t.Errorf("\n%s", Table([]Result{r}))
			}
		}
	})
	return results
}
