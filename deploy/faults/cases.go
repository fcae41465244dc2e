package faults

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
)

const (
	// takeover is within what time of a crash a successor answers: D, and
	// what a busy machine adds.
	takeover = LeaseDuration + 300*time.Millisecond
	// handed is within what time a successor answers where the owner lets go.
	handed = 2 * time.Second
	// addressLifetime is for how long an address outlives all daemons.
	addressLifetime = 2 * time.Minute
	// returns is within what time of the API server's return VIPs answer.
	returns = time.Second
)

// stays, moves and back are the usual expectations.
var (
	stays = Expectation{Outcome: Stays, Rate: recoverRate}
	moves = Expectation{Outcome: Moves, Bound: takeover, Hands: 1, Fence: LeaseDuration, Rate: recoverRate}
	back  = Expectation{Outcome: Back, Bound: returns, Hands: 1, Fence: LeaseDuration, Rate: recoverRate}
)

// everyNode is what a fault of the API server hits.
func everyNode(w *World) []string { return w.Nodes() }

// nobody is what a fault hits that must change nothing.
func nobody(*World) []string { return []string{""} }

// Cases returns every fault, in the order in which they are run.
func Cases() []Case {
	var list []Case
	list = append(list, Case{Name: "nothing", Faulty: nobody, Fault: nothing, Hold: 10 * time.Second,
		Want: Expectation{Outcome: Stays, Rate: leaseRate}})
	list = append(list, kills()...)
	list = append(list, freezes()...)
	list = append(list, outages()...)
	list = append(list, cuts()...)
	list = append(list, damages()...)
	list = append(list, services()...)
	list = append(list, refusals()...)
	return append(list, conflicts()...)
}

func nothing(context.Context, *World) error { return nil }

// kills are ends of daemons without a chance.
func kills() []Case {
	var list []Case
	for _, d := range ownership.Table() {
		list = append(list, Case{Name: "SIGKILL " + d.Name, Want: stays, Settle: LeaseDuration / 2,
			Fault: func(ctx context.Context, w *World) error { return w.Restart(ctx, w.Owner, d.Name) }})
	}
	return append(list,
		Case{Name: "SIGKILL all", Want: stays, Settle: LeaseDuration,
			Fault: func(ctx context.Context, w *World) error { return w.Restart(ctx, w.Owner) }},
		Case{Name: "SIGKILL elector, down for longer than D", Long: true, Want: moves, Hold: LeaseDuration + 2*time.Second,
			Fault: func(ctx context.Context, w *World) error { return w.Kill(ctx, w.Owner, ownership.Elector) }},
		Case{Name: "SIGKILL all, down for longer than D", Long: true, Want: moves, Hold: LeaseDuration + 2*time.Second,
			Fault: func(ctx context.Context, w *World) error { return w.Kill(ctx, w.Owner) }},
		// The kernel keeps what the new pod finds; where it is slow to come the
		// address moves.
		Case{Name: "SIGKILL all, new state directory", Want: Expectation{Outcome: Either, Bound: handed, Hands: 1, Rate: recoverRate},
			Hold: LeaseDuration, Fault: replacePod},
		Case{Name: "SIGTERM all, everywhere", Faulty: everyNode, Hold: time.Second, Settle: time.Second,
			Want: Expectation{Outcome: Back, Bound: ready, Hands: 1, Fence: LeaseDuration}, Fault: retire},
		Case{Name: "SIGKILL all, everywhere, gone for two minutes", Long: true, Faulty: everyNode, Settle: time.Second,
			Want: Expectation{Outcome: Back, Bound: ready, Hands: 1, Fence: LeaseDuration}, Fault: abandon},
	)
}

// replacePod is a pod that was killed and made anew.
func replacePod(ctx context.Context, w *World) error {
	if err := w.Kill(ctx, w.Owner); err != nil {
		return err
	}
	if err := w.ResetState(w.Owner); err != nil {
		return err
	}
	return w.Start(ctx, w.Owner)
}

// retire ends vipod on every node in order; nothing of it may be left.
func retire(ctx context.Context, w *World) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, node := range w.Nodes() {
		group.Go(func() error { return w.StopNode(groupCtx, node, unix.SIGTERM) })
	}
	w.disown()
	if err := group.Wait(); err != nil {
		return err
	}
	return w.gone(ctx)
}

// abandon ends vipod on every node without a chance, for longer than the
// lifetime of an address without a daemon.
func abandon(ctx context.Context, w *World) error {
	for _, node := range w.Nodes() {
		if err := w.Kill(ctx, node); err != nil {
			return err
		}
	}
	return errors.Join(pause(ctx, addressLifetime), w.addressesGone())
}

// freezes are daemons that are stopped in their tracks.
func freezes() []Case {
	frozen := func(names ...string) func(context.Context, *World) error {
		return func(_ context.Context, w *World) error { return w.Pause(w.Owner, names...) }
	}
	long := LeaseDuration + 2*time.Second
	either := Expectation{Outcome: Either, Bound: takeover, Hands: 1, Rate: recoverRate}
	// The elector renews until vipd has not answered for two renewals; then its
	// last renewal has to end.
	unanswered := moves
	unanswered.Bound += 2 * RetryPeriod
	return []Case{
		{Name: "SIGSTOP all for 2s", Long: true, Want: stays, Hold: 2 * time.Second, Fault: frozen()},
		{Name: "SIGSTOP all for longer than D", Want: moves, Hold: long, Fault: frozen(), Settle: 2 * time.Second},
		{Name: "SIGSTOP elector for longer than D", Long: true, Want: moves, Hold: long, Fault: frozen(ownership.Elector), Settle: 2 * time.Second},
		{Name: "SIGSTOP vipd for longer than D", Want: unanswered, Hold: long + RetryPeriod, Fault: frozen(ownership.Vipd), Settle: 2 * time.Second},
		{Name: "SIGSTOP arpd for longer than D", Long: true, Want: either, Hold: long, Fault: frozen(ownership.Arpd)},
		{Name: "SIGSTOP metricsd for longer than D", Long: true, Want: stays, Hold: long, Fault: frozen(ownership.Metricsd)},
	}
}
