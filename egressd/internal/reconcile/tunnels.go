package reconcile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/egressd/internal/wg"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// TunnelConfig is what the tunnels of a Reconciler need.
type TunnelConfig struct {
	// File describes the tunnels; one that is not there describes none.
	File string
	// Open returns the kernel; protocol marks routes and rules as ours.
	Open func(protocol uint8) wg.Kernel
	// Available says why the kernel cannot do it, nil if it can.
	Available func() error
}

// tunnels are the tunnels of this node.
type tunnels struct {
	TunnelConfig
	log     *slog.Logger
	list    []tunnel.Tunnel // of the file, the last good ones
	problem error           // with the file
	lacking error           // why the kernel has no WireGuard
	alias   string
	kernel  wg.Kernel
	looked  bool // whether the kernel was ever looked at
	actual  tunnel.Actual
	applied map[string]tunnel.Tunnel // what each device was configured with
	errs    map[string]error         // by name
	retry   trigger.Backoff
	silent  trigger.Backoff // until the far ends have answered
	history map[string]*handshakes
	// handshakes is told of each handshake that is seen.
	handshakes func(tunnel string)
}

func newTunnels(c TunnelConfig, log *slog.Logger, seen func(tunnel string)) *tunnels {
	return &tunnels{
		TunnelConfig: c, log: log, handshakes: seen, applied: map[string]tunnel.Tunnel{}, history: map[string]*handshakes{},
		errs: map[string]error{}, retry: trigger.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second},
		silent: trigger.Backoff{Min: 50 * time.Millisecond, Max: look},
	}
}

// maxTunnelFile is how much of the file is read, in bytes; ParseFile refuses
// one that is longer than 1 MiB.
const maxTunnelFile = 1<<20 + 1

// read reads the file. One that is bad leaves everything as it was.
func (t *tunnels) read() {
	list, err := readTunnels(t.File)
	if err == nil {
		t.lacking = nil
		if len(list) > 0 {
			t.lacking = t.Available()
		}
		if !reflect.DeepEqual(list, t.list) {
			t.log.Info("tunnels described", "count", len(list))
		}
		if shared := tunnel.Shared(list); len(shared) > 0 && !reflect.DeepEqual(list, t.list) {
			t.log.Warn("tunnels have one key and one far end: nodes that own their VIPs take its session from each other", "tunnels", shared)
		}
		t.list = list
	}
	if err != nil && (t.problem == nil || t.problem.Error() != err.Error()) {
		t.log.Warn("file of tunnels refused, the last good ones stay", "file", t.File, "err", err)
	}
	t.problem = err
}

func readTunnels(file string) ([]tunnel.Tunnel, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading tunnels: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxTunnelFile))
	if err != nil {
		return nil, fmt.Errorf("reading tunnels: %w", err)
	}
	return tunnel.ParseFile(data)
}

// documents are the tunnels as others may know them, none where the kernel
// cannot have them.
func (t *tunnels) documents() (list []schema.Tunnel) {
	if t.lacking != nil {
		return nil
	}
	for _, x := range t.list {
		list = append(list, x.Document())
	}
	return list
}

// want is what the kernel shall have.
func (t *tunnels) want(w *desired.Wanted) tunnel.Desired {
	d := tunnel.Desired{Alias: t.alias, Sweep: w.Sweep, Again: map[string]bool{}}
	d.Tunnels, d.Idle = w.Tunnels()
	for _, x := range d.Tunnels {
		was, ok := t.applied[x.Name]
		d.Again[x.Name] = ok && !reflect.DeepEqual(was, x)
	}
	described := map[string]bool{}
	for _, x := range t.list {
		described[x.Name] = true
	}
	for name := range t.actual.Links {
		if !described[name] && t.problem == nil {
			d.Idle[name] = true // by the file, which is a whole picture by itself
		}
	}
	return d
}

// permit lets the tunnels in use send for as long as their grants last: the
// kernel itself ends it when nobody prolongs it.
func (r *Reconciler) permit() error {
	if r.kernel == nil || r.wanted == nil {
		return nil
	}
	return r.kernel.Permit(r.wanted.Permissions(r.docs.Grants, bootclock.Now()))
}

// silence takes away the tunnels that this node may not use. It comes before
// the nftables tables change, and bring after them, so that what comes through
// a tunnel is always looked at.
func (t *tunnels) silence(w *desired.Wanted) {
	if !t.observe() {
		return
	}
	for _, op := range tunnel.Removals(t.want(w), t.actual) {
		if err := t.do(op); err != nil {
			t.log.Error("taking away a tunnel", "err", err)
		}
	}
}

// observe looks at the kernel, unless there is nothing that could be there.
func (t *tunnels) observe() bool {
	if t.looked && len(t.list) == 0 && len(t.actual.Links) == 0 {
		return false
	}
	var names []string
	for _, x := range t.list {
		names = append(names, x.Name)
	}
	actual, err := t.kernel.Observe(t.alias, names)
	if err != nil {
		for _, x := range t.list {
			t.errs[x.Name] = err
		}
		return false
	}
	t.actual, t.looked = actual, true
	return true
}

// do makes an operation and keeps what it did to the model.
func (t *tunnels) do(op tunnel.Op) error {
	if err := t.kernel.Do(op); err != nil {
		return err
	}
	t.log.Info("tunnel changed", "op", op.String())
	t.actual = tunnel.Apply(t.actual, op)
	return nil
}

// bring makes the tunnels that this node may use. An error of one leaves the
// others alone. It returns when to come back, 0 for not.
func (t *tunnels) bring(w *desired.Wanted) time.Duration {
	before := t.errs
	t.errs = map[string]error{}
	if t.kernel == nil || !t.observe() {
		return t.again(before)
	}
	d := t.want(w)
	for _, x := range d.Tunnels {
		one := tunnel.Desired{Alias: d.Alias, Tunnels: []tunnel.Tunnel{x}, Again: d.Again}
		for _, op := range tunnel.Plan(one, t.actual) {
			if err := t.do(op); err != nil {
				t.errs[x.Name] = err
				break
			}
		}
		if t.errs[x.Name] == nil {
			t.applied[x.Name] = x
		}
	}
	maps.DeleteFunc(t.applied, func(name string, _ tunnel.Tunnel) bool {
		_, ok := t.actual.Links[name]
		return !ok
	})
	t.note(time.Now())
	return t.again(before)
}

// look is how often tunnels in use are looked at, once their far ends have
// answered.
const look = 5 * time.Second

// again tells of errors that are new and says when to come back.
func (t *tunnels) again(before map[string]error) time.Duration {
	for name, err := range t.errs {
		if was := before[name]; was == nil || was.Error() != err.Error() {
			t.log.Error("making a tunnel", "tunnel", name, "err", err)
		}
	}
	if len(t.errs) > 0 {
		return t.retry.Failed()
	}
	t.retry.Reset()
	if len(t.actual.Links) == 0 {
		return 0
	}
	for _, l := range t.actual.Links {
		if len(l.Peers) == 1 && l.Peers[0].Handshake == 0 {
			return t.silent.Failed()
		}
	}
	t.silent.Reset()
	return look
}

// handshakes are the last ones of a tunnel.
type handshakes struct {
	last  time.Time
	times []time.Time
}

const (
	// stormWindow is over how long handshakes are counted, stormCount how many
	// are too many: a tunnel that works has one in two minutes.
	stormWindow = time.Minute
	stormCount  = 4
	// fresh is for how long a handshake keeps a tunnel open (REJECT_AFTER_TIME).
	fresh = 180 * time.Second
)

// note counts handshakes. now is the wall clock.
func (t *tunnels) note(now time.Time) {
	maps.DeleteFunc(t.history, func(name string, _ *handshakes) bool {
		_, ok := t.actual.Links[name]
		return !ok
	})
	for name, l := range t.actual.Links {
		h := t.history[name]
		if h == nil {
			h = &handshakes{}
			t.history[name] = h
		}
		h.times = slices.DeleteFunc(h.times, func(at time.Time) bool { return now.Sub(at) > stormWindow })
		if len(l.Peers) != 1 || l.Peers[0].Handshake == 0 {
			continue
		}
		at := now.Add(-l.Peers[0].Handshake)
		if at.Sub(h.last).Abs() > time.Second {
			h.last, h.times = at, append(h.times, at)
			t.handshakes(name)
		}
	}
}

// contested says whether somebody else seems to use the tunnel's key: two that
// use it make handshakes in turns.
func (t *tunnels) contested(name string) bool {
	h := t.history[name]
	return h != nil && len(h.times) >= stormCount
}

// condition says how the tunnels of a VIP stand; w is what is wanted. It is
// False only if none of them is up.
func (t *tunnels) condition(w *desired.Wanted, vip schema.VIP) schema.Condition {
	rank := map[string]int{schema.TunnelConnected: 1, schema.TunnelSilent: 2, schema.TunnelContested: 3}
	down := 0
	c := schema.Condition{Type: schema.ConditionTunnelled, Status: schema.False, Reason: "NoAddresses"}
	for i, a := range vip.Addresses {
		status, reason, message := t.judge(w.TunnelOf(a.IP), a)
		worse := status != schema.True && c.Status == schema.True || status == schema.Unknown && c.Status == schema.False ||
			status == schema.True && c.Status == schema.True && rank[reason] > rank[c.Reason]
		if i == 0 || worse {
			c.Status, c.Reason, c.Message = status, reason, message
		}
		if status == schema.False {
			down++
		}
	}
	if c.Status == schema.False && down < len(vip.Addresses) {
		c.Status = schema.Unknown // another one may be up
	}
	return c
}

func (t *tunnels) judge(x *desired.Tunnel, a schema.Address) (schema.ConditionStatus, string, string) {
	switch {
	case x == nil && t.problem != nil:
		return schema.Unknown, "FileRefused", "the file of tunnels cannot be read: " + t.problem.Error()
	case x == nil:
		return schema.False, "NoTunnel", fmt.Sprintf("no tunnel of the file has the vip %s", a.IP)
	}
	l, there := t.actual.Links[x.Name]
	switch {
	case there && !l.Ours(t.alias):
		return schema.False, "ForeignLink", fmt.Sprintf("link %s is there already and not vipod's", x.Name)
	case !x.Used && there:
		return schema.Unknown, "StillUp", fmt.Sprintf("tunnel %s is not taken away yet", x.Name)
	case !x.Used:
		return schema.False, "NotActive", "the VIP is not active here, or not granted"
	case t.errs[x.Name] != nil:
		return schema.Unknown, "KernelError", t.errs[x.Name].Error()
	case !l.Up || len(l.Peers) != 1:
		return schema.Unknown, "KernelError", fmt.Sprintf("tunnel %s is not up", x.Name)
	case t.contested(x.Name):
		return schema.True, schema.TunnelContested, fmt.Sprintf("tunnel %s made %d handshakes within a minute: another host seems to use its key", x.Name, stormCount)
	case slices.Contains(tunnel.Shared(t.list), x.Name):
		return schema.True, schema.TunnelContested, fmt.Sprintf("tunnel %s has key and far end of another tunnel: the nodes that own their VIPs take the far end's session from each other", x.Name)
	case l.Peers[0].Handshake == 0 || l.Peers[0].Handshake > fresh:
		return schema.True, schema.TunnelSilent, fmt.Sprintf("tunnel %s is up, its far end does not answer", x.Name)
	}
	return schema.True, schema.TunnelConnected, fmt.Sprintf("tunnel %s is up, its far end has answered", x.Name)
}

// CheckTunnels says what is wrong with a file of tunnels.
func CheckTunnels(file string) error {
	_, err := readTunnels(file)
	return err
}
