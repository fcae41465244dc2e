package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/selfcheck"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/version"
)

// Env is what every subcommand of every daemon gets.
type Env struct {
	Log      *slog.Logger
	StateDir string
	Stdout   io.Writer
}

// Program describes a daemon's binary. Its subcommands are run (the default),
// status, check, healthz, readyz, prepare, version and help.
type Program struct {
	Name string
	// Flags adds the daemon's own flags; may be nil.
	Flags func(*flag.FlagSet)
	// Run does the daemon's work until ctx ends, which SIGTERM and SIGINT
	// make it.
	Run func(ctx context.Context, env *Env) error
	// Check validates the configuration beyond uid, capabilities and
	// directory, and changes nothing; may be nil.
	Check func(env *Env) error
	// Status prints the /status answer for a person.
	Status func(out io.Writer, answer []byte) error
	// GCPercent is how much the heap may grow between two collections, in
	// percent, 25 if zero. The environment variable GOGC wins.
	GCPercent int
}

// gcPercent is little because a daemon's live heap is less than 1 MiB: with
// Go's own value of 100 it is collected at 4 MiB, which costs each of the
// pod's daemons 3 MiB, and collections of such a heap cost nothing.
const gcPercent = 25

// ExitUsage is the exit code for a command line that makes no sense.
const ExitUsage = 2

// commands are for people to read.
const commands = "run, status, check, healthz, readyz, prepare, version, help"

var errUsage = errors.New("usage")

// Main runs the subcommand that args name and returns the exit code.
func (p *Program) Main(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(cmp.Or(p.GCPercent, gcPercent))
	}
	err := p.command(args, getenv, stdout, stderr)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return ExitUsage
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

func (p *Program) command(args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	name := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	env := &Env{Stdout: stdout}
	fs := flag.NewFlagSet(p.Name+" "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	level := slog.LevelInfo
	output := fs.String("o", "table", "output of status: table or json")
	fs.StringVar(&env.StateDir, "state-dir", orDefault(getenv("VIPOD_STATE_DIR"), ownership.DefaultStateDir),
		"state directory (environment: VIPOD_STATE_DIR)")
	fs.TextVar(&level, "log-level", slog.LevelInfo, "least level that is logged: debug, info, warn or error")
	if p.Flags != nil {
		p.Flags(fs)
	}
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: %s [COMMAND] [flags]\n\ncommands: %s; without one: run\n\nflags:\n", p.Name, commands)
		fs.PrintDefaults()
	}
	if name == "help" {
		fs.SetOutput(stdout)
		fs.Usage()
		return nil
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, fs.Arg(0))
	}
	env.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	switch name {
	case "run":
		return p.run(env)
	case "check":
		return p.check(env)
	case "status":
		return p.status(env, *output)
	case "healthz", "readyz":
		_, err := p.ask(env, "/"+name)
		return err
	case "prepare":
		return Prepare(env.StateDir, p.Name)
	case "version":
		_, err := fmt.Fprintln(stdout, version.String())
		return err
	}
	return fmt.Errorf("%w: unknown command %q (%s)", errUsage, name, commands)
}

func orDefault(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

func (p *Program) run(env *Env) error {
	if err := Prepare(env.StateDir, p.Name); err != nil {
		return err
	}
	if err := p.check(env); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	env.Log.Info("starting", "daemon", p.Name, "version", version.String())
	err := p.Run(ctx, env)
	env.Log.Info("stopped", "daemon", p.Name)
	return err
}

func (p *Program) check(env *Env) error {
	err := selfcheck.Check(env.StateDir, p.Name)
	if p.Check != nil {
		err = errors.Join(err, p.Check(env))
	}
	return err
}

// Prepare makes the daemon's own directory in the state directory where it is
// missing. In the pod an init container of the daemon's uid does it, since
// the daemon itself sees the state directory read-only. Under another uid it
// does nothing but complain: the directory would belong to the wrong user.
func Prepare(stateDir, name string) error {
	if err := selfcheck.UID(name); err != nil {
		return fmt.Errorf("preparing state directory: %w", err)
	}
	dir := ownership.Dir(stateDir, name)
	err := os.Mkdir(dir, ownership.DirMode)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil
	case err == nil:
		err = os.Chmod(dir, ownership.DirMode) // whatever the umask
	}
	if err != nil {
		return fmt.Errorf("preparing state directory: %w", err)
	}
	return nil
}

const askTimeout = 5 * time.Second

func (p *Program) status(env *Env, output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("%w: -o %q is not table or json", errUsage, output)
	}
	answer, err := p.ask(env, "/status")
	if err != nil {
		return err
	}
	if output == "table" {
		return p.Status(env.Stdout, answer)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, answer, "", "  "); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	_, err = fmt.Fprintln(env.Stdout, indented.String())
	return err
}

// ask asks the running daemon.
func (p *Program) ask(env *Env, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return sock.NewClient(env.StateDir, p.Name).Get(ctx, path)
}
