// Command lab makes and handles labs: vipod on network namespaces, with a
// real API server and kube-proxy. "lab help" lists its commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// command is one subcommand.
type command struct {
	name, args, help string
	// setup defines the command's flags and returns what runs it.
	setup func(*flag.FlagSet) func(context.Context, []string) error
	// rawArgs leaves everything after the first argument to the command.
	rawArgs bool
	// hidden commands are run by the lab itself.
	hidden bool
}

var commands = []command{
	{name: "up", help: "make a lab (about 12 s)", setup: setupUp},
	{name: "down", help: "remove a lab and everything in it", setup: setupDown},
	{name: "status", help: "show namespaces, processes and Services", setup: setupStatus},
	{name: "exec", args: "ROLE COMMAND [ARG...]", help: "run a command in a role's namespace",
		setup: setupExec, rawArgs: true},
	{name: "start", args: "NODE [DAEMON...]", help: "start the daemons of a node, or those named, and wait until they answer", setup: setupStart},
	{name: "stop", args: "NODE [DAEMON...]", help: "stop the daemons of a node, or those named", setup: setupStop},
	{name: "cut", args: "NODE", help: "take a node off the network", setup: setupCut},
	{name: "heal", args: "NODE", help: "end every fault of a node's network", setup: setupHeal},
	{name: "service", args: "NAME [POD...]", help: "make a LoadBalancer Service served by all pods, or those named",
		setup: setupService},
	{name: "relay", help: "forward TCP connections (a node's way to the API server)",
		setup: setupRelay, hidden: true},
	{name: "pod", help: "serve what a pod of the lab serves", setup: setupPod, hidden: true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	var exit exitError
	switch {
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case err != nil:
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// exitError ends the program with the status of a command that it ran.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		usage(os.Stderr)
		return exitError(2)
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		usage(out)
		return nil
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:])
		}
	}
	return fmt.Errorf("unknown command %q; lab help lists them", args[0])
}

func (c command) run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("lab "+c.name, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: lab %s [flags] %s\n\n%s\n\n", c.name, c.args, c.help)
		flags.PrintDefaults()
	}
	action := c.setup(flags)
	operands, err := c.parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return exitError(2) // flags has printed what is wrong
	}
	return action(ctx, operands)
}

// parse reads flags before, between and after the operands.
func (c command) parse(flags *flag.FlagSet, args []string) ([]string, error) {
	var operands []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		args = flags.Args()
		if len(args) == 0 || c.rawArgs {
			return append(operands, args...), nil
		}
		operands = append(operands, args[0])
		args = args[1:]
	}
}

func usage(out io.Writer) {
	fmt.Fprint(out, "usage: lab COMMAND [flags] [ARG...]\n\n"+
		"Roles are lan, cp, client, the nodes n1.. and the pods p1... \"lab COMMAND -h\" lists flags.\n\n")
	for _, c := range commands {
		if !c.hidden {
			fmt.Fprintf(out, "  %-32s %s\n", c.name+" "+c.args, c.help)
		}
	}
}
