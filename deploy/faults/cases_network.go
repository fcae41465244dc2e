package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

// outages are faults of the API server and of the way there.
func outages() []Case {
	long := func(w *World) time.Duration {
		if w.Full {
			return 30 * time.Second
		}
		return LeaseDuration + 3*time.Second
	}
	return []Case{
		{Name: "API server gone for less than D", Long: true, Want: stays, Faulty: everyNode, Hold: 2 * time.Second,
			Fault: func(_ context.Context, w *World) error { return w.PauseAPI() }},
		// While it starts it is ready for some and not for others: the control
		// plane may move more than once.
		{Name: "API server killed for longer than D", Faulty: everyNode,
			Want: Expectation{Outcome: Back, Bound: returns, Hands: 3, Fence: LeaseDuration, Rate: recoverRate},
			Fault: func(ctx context.Context, w *World) error {
				return errors.Join(w.StopAPI(ctx), w.hold(ctx, long(w)), w.startAPI(ctx))
			}},
		{Name: "API server hangs for longer than D", Long: true, Want: back, Faulty: everyNode,
			Fault: func(ctx context.Context, w *World) error { return errors.Join(w.PauseAPI(), w.hold(ctx, long(w))) }},
		{Name: "watches cut", Want: stays, Faulty: everyNode, Settle: LeaseDuration,
			Fault: func(ctx context.Context, w *World) error {
				var errs []error
				for _, node := range w.Nodes() {
					errs = append(errs, w.StopRelay(ctx, node), w.StartRelay(ctx, node))
				}
				return errors.Join(errs...)
			}},
		{Name: "owner cut off from the API server only", Want: moves, Hold: LeaseDuration + 2*time.Second,
			Fault: func(ctx context.Context, w *World) error { return w.CutAPI(ctx, w.Owner) }},
	}
}

// startAPI starts the API server. The fault has ended once it answers.
func (w *World) startAPI(ctx context.Context) error {
	w.Observer.note(Event{Kind: End, Text: "the API server is started"})
	if err := w.StartAPI(ctx); err != nil {
		return err
	}
	w.Step("the API server answers")
	return nil
}

// cuts are faults of the LAN.
func cuts() []Case {
	return []Case{
		{Name: "owner cut off from the LAN", Want: moves, Hold: LeaseDuration + 2*time.Second, Settle: 2 * time.Second,
			Fault: func(ctx context.Context, w *World) error { return w.Cut(ctx, w.Owner) }},
		{Name: "all others cut off from the LAN", Want: moves, Hold: LeaseDuration + 2*time.Second, Settle: 2 * time.Second,
			Faulty: (*World).Others,
			Fault: func(ctx context.Context, w *World) error {
				var errs []error
				for _, node := range w.Others() {
					errs = append(errs, w.Cut(ctx, node))
				}
				return errors.Join(errs...)
			}},
		{Name: "owner loses its carrier, API by another way", Hold: 3 * time.Second,
			Want: Expectation{Outcome: Moves, Bound: handed, Hands: 1, Rate: recoverRate},
			Fault: func(ctx context.Context, w *World) error {
				return errors.Join(w.separate(ctx, w.Owner), w.CutCarrier(ctx, w.Owner))
			}},
		{Name: "owner loses its carrier and the API", Long: true, Want: moves, Hold: LeaseDuration + 2*time.Second,
			Fault: func(ctx context.Context, w *World) error { return w.CutCarrier(ctx, w.Owner) }},
		{Name: "link flaps ten times a second", Long: true, Settle: 2 * time.Second,
			Want:  Expectation{Outcome: Either, Bound: takeover, Hands: 1, Rate: recoverRate},
			Fault: flap},
	}
}

// flap takes the carrier away and gives it back, ten times a second.
func flap(ctx context.Context, w *World) error {
	if err := w.separate(ctx, w.Owner); err != nil {
		return err
	}
	rounds := 30
	if w.Full {
		rounds = 100
	}
	for range rounds {
		err := errors.Join(
			w.CutCarrier(ctx, w.Owner), pause(ctx, 50*time.Millisecond),
			w.Heal(ctx, w.Owner), pause(ctx, 50*time.Millisecond))
		if err != nil {
			return err
		}
	}
	return nil
}

// separate gives a node a way to the API server besides the LAN, so that what
// happens to its link is all that happens.
func (w *World) separate(ctx context.Context, node string) error {
	addrs, err := lab.NodeAddrs(node)
	if err != nil {
		return err
	}
	api := lab.APIAddrs()
	w.After(func(ctx context.Context) error {
		// vipd remembers for a minute how often its links were down.
		return errors.Join(w.in(ctx, node, "ip link del mgmt0"), w.Restart(ctx, node, ownership.Vipd))
	})
	return errors.Join(
		w.in(ctx, node, "ip link add mgmt0 type veth peer name mgmt-"+node+" netns "+w.NS("cp")),
		w.in(ctx, node, "ip link set mgmt0 up"),
		w.in(ctx, "cp", "ip link set mgmt-"+node+" up"),
		w.in(ctx, node, fmt.Sprintf("ip route add %s dev mgmt0 src %s", api.V4, addrs.V4)),
		w.in(ctx, "cp", fmt.Sprintf("ip route add %s dev mgmt-%s src %s", addrs.V4, node, api.V4)),
	)
}

// in runs a command in a role's namespace.
func (w *World) in(ctx context.Context, role, command string) error {
	_, err := w.Exec(ctx, role, strings.Fields(command)...)
	return err
}

// host runs ip(8) outside of all namespaces, to make and remove one.
func (w *World) host(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running ip %q: %w: %s", args, err, out)
	}
	return nil
}

// script runs lines of nft(8) in a role's namespace.
func (w *World) script(ctx context.Context, role, text string) error {
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", w.NS(role), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running nft in %s: %w: %s", role, err, out)
	}
	return nil
}

// stateFile is a path in the owner's state directory.
func (w *World) stateFile(parts ...string) string {
	return strings.Join(append([]string{w.StateDir(w.Owner)}, parts...), "/")
}

// rewrite replaces a file's content in place, as no daemon does.
func rewrite(path string, change func([]byte) []byte) (restore func(context.Context) error, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return os.WriteFile(path, data, 0o640) },
		os.WriteFile(path, change(data), 0o640)
}
