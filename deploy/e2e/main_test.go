package e2e

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
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

// envJanitor makes the test binary the janitor of the lab that it names.
const envJanitor = "VIPOD_E2E_JANITOR"

// TestMain takes the lab down however the tests end.
func TestMain(m *testing.M) {
	if name := os.Getenv(envJanitor); name != "" {
		os.Exit(janitor(name))
	}
	// What runs side by side mostly waits.
	flag.Parse()
	if err := flag.Set("test.parallel", "3"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	if err := shared.down(); err != nil {
		fmt.Fprintln(os.Stderr, "taking the lab down:", err)
		code = 1
	}
	os.Exit(code)
}

// janitor is a process that waits for the end of the tests, be it a panic, a
// timeout or a signal, and then removes what they left.
func janitor(name string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the other end's process
	if err := lab.Down(name); err != nil {
		return 1
	}
	return 0
}

// sharedLab is the lab of all tests, made for the first of them.
type sharedLab struct {
	once    sync.Once
	cluster *trial.Cluster
	err     error
	release func() error
}

var shared sharedLab

// daemonEnv is added to the environment of every daemon: the ranges that no
// VIP may be from, and a control plane's health looked at often, for the tests
// to be short.
var daemonEnv = []string{
	"vipod_service_cidr=" + lab.Services4.String() + "," + lab.Services6.String(),
	"control_plane_health_check_period_seconds=500ms",
	"control_plane_health_check_timeout_seconds=2",
	"control_plane_health_check_failure_threshold=2",
}

// get returns the lab. Where none can run the test is skipped, or fails if
// it must not be.
func (s *sharedLab) get(t *testing.T) *trial.Cluster {
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
	s.once.Do(func() {
		s.err = errors.New("starting the lab did not end")
		s.err = s.up(t, bin)
	})
	if s.err != nil {
		t.Fatalf("there is no lab: %v", s.err)
	}
	return s.cluster
}

func (s *sharedLab) up(t *testing.T, bin string) (err error) {
	name := "e2e" + strconv.FormatInt(int64(os.Getpid()), 36)
	if s.release, err = startJanitor(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	s.cluster, err = trial.Start(ctx, trial.Options{
		Name: name, Root: filepath.Join("..", ".."), Bin: bin, Env: daemonEnv,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	return err
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

func (s *sharedLab) down() error {
	var err error
	if s.cluster != nil {
		err = s.cluster.Down()
	}
	if s.release != nil {
		err = errors.Join(err, s.release())
	}
	return err
}
