package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/deploy/lab"
)

const defaultName = "lab"

func nameFlag(flags *flag.FlagSet) *string {
	return flags.String("name", defaultName, "the lab's `name`, to tell several apart")
}

// listFlag is a flag that may be given several times.
type listFlag []string

func (l *listFlag) String() string { return fmt.Sprint([]string(*l)) }

func (l *listFlag) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func setupUp(flags *flag.FlagSet) func(context.Context, []string) error {
	opts := lab.Options{Log: lab.ProgressLogger(os.Stderr)}
	var manifests listFlag
	env := lab.DefaultEnv()
	flags.StringVar(&opts.Name, "name", defaultName, "the lab's `name`: 1 to 12 of a-z and 0-9")
	flags.IntVar(&opts.Nodes, "nodes", 3, "how many `nodes`, 1 to 8")
	flags.StringVar(&opts.BinDir, "bin", "", "`directory` of the programs (default: where this one is)")
	flags.Var(&manifests, "manifest", "YAML `file` to apply; can be repeated (default: what gives the elector its rights)")
	envFlag(flags, &env)
	start := flags.Bool("start", false, "start every daemon on every node")
	return func(ctx context.Context, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if opts.Nodes == 0 { // which means the default to the library
			return fmt.Errorf("0 nodes: a lab has 1 to %d", lab.MaxNodes)
		}
		if opts.BinDir == "" {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding the directory of this program: %w", err)
			}
			opts.BinDir = filepath.Dir(self)
		}
		if len(manifests) == 0 {
			manifests = shippedManifests(opts.BinDir)
		}
		opts.Manifests, opts.Env = manifests, env
		l, err := lab.Up(ctx, opts)
		if err != nil || !*start {
			return err
		}
		return startAll(ctx, l)
	}
}

// envFlag adds the flag -env, whose values are appended to env.
func envFlag(flags *flag.FlagSet, env *[]string) {
	const usage = "`KEY=value` for every daemon; can be repeated; wins over what switches Services and the control plane on"
	flags.Func("env", usage, func(text string) error {
		if strings.IndexByte(text, '=') < 1 {
			return errors.New("want KEY=value")
		}
		*env = append(*env, text)
		return nil
	})
}

// startAll starts every daemon on every node, and only then waits for them.
func startAll(ctx context.Context, l *lab.Lab) error {
	for _, node := range l.Nodes() {
		if err := l.StartNode(ctx, node); err != nil {
			return err
		}
	}
	for _, node := range l.Nodes() {
		if err := awaitDaemons(ctx, l, node); err != nil {
			return err
		}
	}
	return nil
}

// startTimeout is how long a daemon may take until it answers.
const startTimeout = 30 * time.Second

func awaitDaemons(ctx context.Context, l *lab.Lab, node string, daemons ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return l.AwaitDaemons(ctx, node, daemons...)
}

// shippedManifests returns the Role of the elector, if the programs are in the
// bin directory of the source tree.
func shippedManifests(binDir string) []string {
	path := filepath.Join(binDir, "..", "deploy", "manifests", "rbac.yaml")
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return []string{path}
}

func setupDown(flags *flag.FlagSet) func(context.Context, []string) error {
	name := nameFlag(flags)
	all := flags.Bool("all", false, "remove every lab of this machine")
	return func(_ context.Context, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		names, err := lab.Names()
		if !*all {
			if err == nil && !slices.Contains(names, *name) {
				fmt.Fprintf(os.Stderr, "lab: no lab %q is up\n", *name) // no error, so that it can be repeated
			}
			return lab.Down(*name)
		}
		errs := []error{err}
		for _, name := range names {
			errs = append(errs, lab.Down(name))
		}
		return errors.Join(errs...)
	}
}

func noArgs(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}
