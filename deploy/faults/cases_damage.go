package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

// repaired is within what time damage is repaired.
const repaired = 200 * time.Millisecond

// damages are faults of the kernel's state and of the state directory.
func damages() []Case {
	repair := Expectation{Outcome: Stays, Bound: repaired, Rate: recoverRate}
	lost := Expectation{Outcome: Moves, Bound: takeover, Hands: 1, Rate: recoverRate}
	return []Case{
		{Name: "ip addr flush", Want: repair, Settle: time.Second, Fault: flushAddresses},
		{Name: "nft delete table", Long: true, Want: stays, Settle: time.Second,
			Fault: func(ctx context.Context, w *World) error {
				return w.in(ctx, w.Owner, "nft delete table netdev vipod_fence")
			}},
		{Name: "nft flush ruleset", Want: repair, Settle: time.Second, Fault: flushRuleset},
		// The flow in flight begins anew: kube-proxy's rules are asked again.
		{Name: "conntrack -F", Long: true, Want: repair, Settle: time.Second,
			Fault: func(ctx context.Context, w *World) error { return w.in(ctx, w.Owner, "conntrack -F") }},
		{Name: "state directory full", Want: lost, Hold: LeaseDuration + 2*time.Second, Fault: fill},
		{Name: "state directory read-only", Long: true, Want: lost, Hold: LeaseDuration + 2*time.Second, Fault: readOnly},
		{Name: "state directory deleted", Want: Expectation{Outcome: Either, Bound: takeover, Hands: 1, Rate: recoverRate},
			Hold: LeaseDuration + 2*time.Second, Fault: deleteState},
		{Name: "VIP document truncated", Want: stays, Hold: time.Second, Fault: spoil(func(b []byte) []byte { return b[:len(b)/2] })},
		{Name: "VIP document empty", Long: true, Want: stays, Hold: time.Second, Fault: spoil(func([]byte) []byte { return nil })},
		{Name: "VIP document with a flipped bit", Long: true, Want: stays, Hold: time.Second, Fault: spoil(func(b []byte) []byte {
			b[0] ^= 1 // '{' becomes 'z'
			return b
		})},
		{Name: "VIP document huge", Long: true, Want: stays, Hold: time.Second, Fault: huge},
		{Name: "VIP document of another uid", Want: stays, Hold: time.Second, Fault: stolen},
	}
}

// flushAddresses is what an operator does; the node's own addresses are given
// back by the same program at once, its routes by Heal. That cannot be done
// with addresses that the kernel made itself.
func flushAddresses(ctx context.Context, w *World) error {
	own, err := lab.NodeAddrs(w.Owner)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "ip", "-n", w.NS(w.Owner), "-batch", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`addr flush dev eth0 scope global
addr add %s/%d dev eth0
addr add %s/%d dev eth0 nodad
`, own.V4, lab.LAN4.Bits(), own.V6, lab.LAN6.Bits()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("flushing the addresses of %s: %w: %s", w.Owner, err, out)
	}
	return w.Heal(ctx, w.Owner)
}

// flushRuleset gives back at once what is not vipod's.
func flushRuleset(ctx context.Context, w *World) error {
	tables, err := w.Exec(ctx, w.Owner, "nft", "list", "tables")
	if err != nil {
		return err
	}
	script := "flush ruleset\n"
	for line := range strings.Lines(string(tables)) {
		if strings.Contains(line, "vipod") {
			continue
		}
		out, err := w.Exec(ctx, w.Owner, append([]string{"nft", "list"}, strings.Fields(line)...)...)
		if err != nil {
			return err
		}
		script += string(out)
	}
	return w.script(ctx, w.Owner, script)
}

// fill leaves no room in the owner's state directory.
func fill(_ context.Context, w *World) error {
	path := w.stateFile("fill")
	w.After(func(context.Context) error { return os.Remove(path) })
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("filling the state directory: %w", err)
	}
	defer file.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := file.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return fmt.Errorf("filling the state directory: %w", err)
		}
	}
	return nil
}

func readOnly(_ context.Context, w *World) error {
	remount := func(flags uintptr) error {
		return unix.Mount("tmpfs", w.StateDir(w.Owner), "tmpfs", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|flags, "")
	}
	w.After(func(context.Context) error { return remount(0) })
	return remount(unix.MS_RDONLY)
}

// deleteState deletes every file and directory; in the end the pod is
// replaced, since nobody makes them again for one that runs.
func deleteState(_ context.Context, w *World) error {
	w.After(func(ctx context.Context) error { return replacePod(ctx, w) })
	entries, err := os.ReadDir(w.StateDir(w.Owner))
	if err != nil {
		return fmt.Errorf("deleting the state: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(w.stateFile(e.Name())); err != nil {
			return fmt.Errorf("deleting the state: %w", err)
		}
	}
	return nil
}

// document is elector's document about the Service on its owner.
func (w *World) document() string {
	return w.stateFile(ownership.Elector, "vips", "default."+w.Service+".json")
}

// spoil writes something else into the Service's document.
func spoil(change func([]byte) []byte) func(context.Context, *World) error {
	return func(_ context.Context, w *World) error {
		restore, err := rewrite(w.document(), change)
		if restore != nil {
			w.After(restore)
		}
		return err
	}
}

// huge makes the document a gigabyte long; it takes no room.
func huge(_ context.Context, w *World) error {
	restore, err := rewrite(w.document(), func(b []byte) []byte { return b })
	if err != nil {
		return err
	}
	w.After(restore)
	return os.Truncate(w.document(), 1<<30)
}

func stolen(_ context.Context, w *World) error {
	w.After(func(context.Context) error {
		return os.Chown(w.document(), ownership.UID(ownership.Elector), ownership.Group)
	})
	return os.Chown(w.document(), 0, ownership.Group)
}
