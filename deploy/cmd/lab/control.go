package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// onNode makes a command whose first operand is a node.
func onNode(name *string, f func(context.Context, *lab.Lab, string, []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return errors.New("which node? such as n1")
		}
		l, err := lab.Open(*name, nil)
		if err != nil {
			return err
		}
		return f(ctx, l, args[0], args[1:])
	}
}

func setupStart(flags *flag.FlagSet) func(context.Context, []string) error {
	return onNode(nameFlag(flags), func(ctx context.Context, l *lab.Lab, node string, daemons []string) error {
		if err := l.StartNode(ctx, node, daemons...); err != nil {
			return err
		}
		return awaitDaemons(ctx, l, node, daemons...)
	})
}

func setupStop(flags *flag.FlagSet) func(context.Context, []string) error {
	text := flags.String("signal", "TERM", "the `signal`: one that ends a process is waited for, STOP and CONT are not")
	timeout := flags.Duration("timeout", 30*time.Second, "how long to wait for the daemons' end")
	return onNode(nameFlag(flags), func(ctx context.Context, l *lab.Lab, node string, daemons []string) error {
		sig, err := parseSignal(*text)
		if err != nil {
			return err
		}
		if sig == unix.SIGSTOP || sig == unix.SIGCONT {
			return l.SignalDaemons(node, sig, daemons...)
		}
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		return l.StopNode(ctx, node, sig, daemons...)
	})
}

// parseSignal reads "TERM", "SIGTERM" or "term".
func parseSignal(text string) (syscall.Signal, error) {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("unknown signal %q", text)
}

func setupCut(flags *flag.FlagSet) func(context.Context, []string) error {
	carrier := flags.Bool("carrier", false, "pull the cable, so that the node notices")
	api := flags.Bool("api", false, "drop only what the node and the API server exchange")
	return onNode(nameFlag(flags), func(ctx context.Context, l *lab.Lab, node string, rest []string) error {
		if err := noArgs(rest); err != nil {
			return err
		}
		switch {
		case *carrier && *api:
			return errors.New("-carrier and -api exclude each other")
		case *carrier:
			return l.CutCarrier(ctx, node)
		case *api:
			return l.CutAPI(ctx, node)
		}
		return l.Cut(ctx, node)
	})
}

func setupHeal(flags *flag.FlagSet) func(context.Context, []string) error {
	return onNode(nameFlag(flags), func(ctx context.Context, l *lab.Lab, node string, rest []string) error {
		if err := noArgs(rest); err != nil {
			return err
		}
		return l.Heal(ctx, node)
	})
}

func setupExec(flags *flag.FlagSet) func(context.Context, []string) error {
	name := nameFlag(flags)
	return func(_ context.Context, args []string) error {
		if len(args) < 2 {
			return errors.New("want a role and a command, such as: client ip addr")
		}
		l, err := lab.Open(*name, nil)
		if err != nil {
			return err
		}
		if err := checkRole(l, args[0]); err != nil {
			return err
		}
		ip, err := exec.LookPath("ip")
		if err != nil {
			return err
		}
		// The command takes this process's place, with its signals and status.
		argv := append([]string{"ip", "netns", "exec", l.NS(args[0])}, args[1:]...)
		return os.NewSyscallError("execve", unix.Exec(ip, argv, os.Environ()))
	}
}

func checkRole(l *lab.Lab, name string) error {
	roles, err := l.Roles()
	if err != nil {
		return err
	}
	var names []string
	for _, role := range roles {
		names = append(names, role.Name)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("no role %q: lab %s has %s", name, l.Name(), strings.Join(names, ", "))
	}
	return nil
}

func setupService(flags *flag.FlagSet) func(context.Context, []string) error {
	name := nameFlag(flags)
	var vips listFlag
	flags.Var(&vips, "vip", "an `address` to ask for; can be repeated")
	local := flags.Bool("local", false, "externalTrafficPolicy Local")
	class := flags.String("class", "", "the loadBalancer`Class`")
	return func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return errors.New("which name shall the Service have?")
		}
		l, err := lab.Open(*name, nil)
		if err != nil {
			return err
		}
		spec := lab.ServiceSpec{Name: args[0], Class: *class, Pods: args[1:]}
		if *local {
			spec.Policy = corev1.ServiceExternalTrafficPolicyLocal
		}
		for _, text := range vips {
			vip, err := netip.ParseAddr(text)
			if err != nil {
				return fmt.Errorf("-vip: %w", err)
			}
			spec.VIPs = append(spec.VIPs, vip)
		}
		if len(spec.Pods) == 0 {
			if spec.Pods, err = podNames(l); err != nil {
				return err
			}
		}
		_, err = l.CreateService(ctx, spec)
		return err
	}
}

func podNames(l *lab.Lab) ([]string, error) {
	pods, err := l.Pods()
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names, err
}
