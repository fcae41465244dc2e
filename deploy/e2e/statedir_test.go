package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// fullGap is for how long nobody may claim an address whose owner's state
// directory is full: its grant and its Lease end nearly together.
const fullGap = 4 * time.Second

// stateSize is how large a node's state directory is in a lab.
const stateSize = 64 << 20

// fill leaves a node's state directory no space beyond what is in use, until
// it is told to free it.
func (e *env) fill(node string) (free func()) {
	e.t.Helper()
	dir := e.StateDir(node)
	resize := func(size uint64) error {
		return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d", size))
	}
	free = func() { e.must(resize(stateSize)) }
	e.t.Cleanup(free)
	// For a while, since a document that is just being written is in use twice.
	for end := time.Now().Add(calm); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var stat unix.Statfs_t
		e.must(unix.Statfs(dir, &stat))
		err := resize((stat.Blocks - stat.Bfree) * uint64(stat.Bsize))
		if err != nil && !errors.Is(err, unix.EINVAL) { // more is in use by now
			e.t.Fatalf("filling the state directory of %s: %v", node, err)
		}
	}
	return free
}

func TestE2EFullStateDirectoryIsOutlived(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "full"
	owner := e.served(name, vip)
	s := e.during(vip, func() {
		free := e.fill(owner)
		e.within(soon, "elector finds no space", func() error {
			log, err := os.ReadFile(e.LogPath(owner, ownership.Elector))
			return errors.Join(err, want("in its log", bytes.Contains(log, []byte("no space left")), true))
		})
		time.Sleep(leaseDuration + 2*fullGap)
		now := e.owned(name)
		t.Logf("with a full state directory on %s it is on %s", owner, now)
		e.answers(vip.V4, 80)
		e.answers(vip.V6, 80)
		free()
		e.within(soon, "one node alone has the addresses", func() error {
			return firstError(e.only(now, vip.V4), e.only(now, vip.V6))
		})
	}).changedHands(1)
	for _, seen := range s.seen {
		if gap := longestGap(seen.Claims); gap > fullGap {
			t.Errorf("nobody claimed %s for %v, want at most %v", seen.IP, gap, fullGap)
		} else {
			t.Logf("nobody claimed %s for %v", seen.IP, gap)
		}
	}
	for _, node := range e.Nodes() {
		e.must(e.AwaitReady(e.ctx, node))
	}
	// The node works as before: it writes what is new.
	e.create(lab.ServiceSpec{Name: "after-full", VIPs: e.vip().Slice(), Pods: []string{podOf(owner)}, Policy: "Local"})
	e.must(want("the owner", e.owned("after-full"), owner))
	e.unharmed()
}

// longestGap returns the longest time between two claims.
func longestGap(claims []probe.Frame) (gap time.Duration) {
	for i := 1; i < len(claims); i++ {
		gap = max(gap, claims[i].Time.Sub(claims[i-1].Time))
	}
	return gap
}

func TestE2EBadDocumentLeavesTheLastGoodOneInForce(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "document"
	owner := e.served(name, vip)
	removed := e.watchRemovals(owner)
	path := filepath.Join(ownership.VIPs(e.StateDir(owner), ownership.Elector), "default."+name+".json")
	good, err := os.ReadFile(path)
	e.must(err)
	elector := ownership.UID(ownership.Elector)
	e.during(vip, func() {
		for _, c := range []struct {
			what string
			data []byte
			uid  int
		}{
			{"truncated", good[:len(good)/2], elector},
			{"empty", nil, elector},
			{"of another schema", bytes.Replace(good, []byte("vipod.vip/1"), []byte("vipod.vip/2"), 1), elector},
			{"too large", append(bytes.Repeat([]byte{' '}, schema.MaxSize), good...), elector},
			{"of another uid", bytes.Replace(good, []byte(`"active"`), []byte(`"withdrawn"`), 1), 0},
		} {
			e.put(path, c.data, c.uid)
			for _, daemon := range []string{ownership.Vipd, ownership.Arpd} {
				e.within(soon, fmt.Sprintf("%s says that the document is %s", daemon, c.what), func() error {
					return e.unreadable(owner, daemon, filepath.Base(path))
				})
			}
			e.must(firstError(e.only(owner, vip.V4), e.only(owner, vip.V6)))
		}
		e.put(path, good, elector)
		for _, daemon := range []string{ownership.Vipd, ownership.Arpd} {
			e.within(soon, daemon+" reads it again", func() error {
				if err := e.unreadable(owner, daemon, filepath.Base(path)); err == nil {
					return errors.New("it does not")
				}
				return nil
			})
		}
	}).changedHands(0).lost(0)
	e.untouched(removed, vip.Slice()...)
	e.stays(name, owner)
	e.unharmed()
}

// put replaces a file at once, as its writer would.
func (e *env) put(path string, data []byte, uid int) {
	e.t.Helper()
	temp := filepath.Join(filepath.Dir(path), ".e2e")
	e.must(os.WriteFile(temp, data, ownership.FileMode))
	e.must(os.Chown(temp, uid, ownership.Group))
	e.must(os.Rename(temp, path))
}

// unreadable returns nil when a daemon's report says that it cannot read the
// document.
func (e *env) unreadable(node, daemon, document string) error {
	doc, err := statefile.Read[schema.Daemon](filepath.Join(ownership.Dir(e.StateDir(node), daemon), "daemon.json"), ownership.UID(daemon))
	if err != nil {
		return err
	}
	c, ok := schema.FindCondition(doc.Conditions, "DocumentsReadable")
	if !ok || c.Status != schema.False || !strings.Contains(c.Message, strings.TrimSuffix(document, ".json")) {
		return fmt.Errorf("it says %s %q", c.Status, c.Message)
	}
	return nil
}
