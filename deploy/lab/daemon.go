package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
)

// DaemonNames returns every daemon in the order of the ownership table.
func DaemonNames() []string {
	var names []string
	for _, d := range ownership.Table() {
		names = append(names, d.Name)
	}
	return names
}

// DefaultEnv is an environment for every daemon with which vipod does what it
// can: control plane and Services over ARP and NDP, the control plane at
// ControlPlaneVIP. Without any, elector has nothing to do and ends.
func DefaultEnv() []string {
	var vips []string
	for _, ip := range ControlPlaneVIP().Slice() {
		vips = append(vips, ip.String())
	}
	return []string{"vip_arp=true", "cp_enable=true", "svc_enable=true", "address=" + strings.Join(vips, ",")}
}

// StartDaemon starts one daemon on a node, under its own uid and with only
// its own capabilities. env is added to Options.Env and wins over it.
func (l *Lab) StartDaemon(ctx context.Context, node, name string, env ...string) error {
	d, err := l.checkDaemon(node, name)
	if err != nil {
		return err
	}
	// By the path outside, for an error that says where it was looked for.
	if _, err := os.Stat(l.opts.BinDir + "/" + name); err != nil {
		return fmt.Errorf("starting %s on %s: %w", name, node, err)
	}
	_, err = l.start(ctx, program{
		role: node, name: name,
		wrap: privileges(d),
		argv: []string{l.bin(name), "run", "--state-dir", l.StateDir(node)},
		env:  l.daemonEnv(node, d, env),
	})
	return err
}

// StartNode starts all daemons on a node, or those named.
func (l *Lab) StartNode(ctx context.Context, node string, names ...string) error {
	if len(names) == 0 {
		names = DaemonNames()
	}
	for _, name := range names {
		if err := l.StartDaemon(ctx, node, name); err != nil {
			return err
		}
	}
	return nil
}

// AwaitDaemons waits until all daemons that were started on a node, or those
// named, answer on their sockets. One that has ended instead is an error that
// shows the end of its log.
func (l *Lab) AwaitDaemons(ctx context.Context, node string, names ...string) error {
	procs, err := l.daemons(node, names)
	errs := []error{err}
	for _, p := range procs {
		errs = append(errs, l.await(ctx, p, 10*time.Millisecond, func() error {
			_, err := l.Ask(ctx, node, p.Name, "/healthz")
			return err
		}))
	}
	return errors.Join(errs...)
}

func (l *Lab) checkDaemon(node, name string) (ownership.Daemon, error) {
	if err := l.checkNode(node); err != nil {
		return ownership.Daemon{}, err
	}
	d, ok := ownership.Lookup(name)
	if !ok {
		return d, fmt.Errorf("no daemon %q: there are %s", name, strings.Join(DaemonNames(), ", "))
	}
	return d, nil
}

// privileges is the command that gives up everything the daemon may not have,
// and then executes it.
func privileges(d ownership.Daemon) []string {
	bounding, ambient := "-all", "-all"
	for _, name := range d.Capabilities {
		bounding += ",+" + strings.ToLower(name)
		ambient += ",+" + strings.ToLower(name)
	}
	return []string{
		"setpriv", "--reuid", strconv.Itoa(d.UID), "--regid", strconv.Itoa(ownership.Group),
		"--clear-groups", "--inh-caps", ambient, "--ambient-caps", ambient,
		"--bounding-set", bounding, "--no-new-privs", "--",
	}
}

// daemonEnv returns a daemon's environment; of a repeated key the last counts.
func (l *Lab) daemonEnv(node string, d ownership.Daemon, extra []string) []string {
	env := []string{"vip_nodename=" + node, "VIPOD_STATE_DIR=" + l.StateDir(node)}
	if d.Token {
		env = append(env, "k8s_config_file="+l.Kubeconfig(node))
	}
	// A binary built with coverage writes its counts there.
	if dir, ok := os.LookupEnv("GOCOVERDIR"); ok {
		env = append(env, "GOCOVERDIR="+dir)
	}
	return slices.Concat(env, l.opts.Env, extra)
}

// StopDaemon sends a signal that ends the daemon, such as SIGTERM, and waits
// until it has ended. One that does not run is stopped already.
func (l *Lab) StopDaemon(ctx context.Context, node, name string, sig syscall.Signal) error {
	return l.StopNode(ctx, node, sig, name)
}

// StopNode sends a signal to all daemons of a node at once, or to those
// named, and waits until they have ended: what happens to a pod.
func (l *Lab) StopNode(ctx context.Context, node string, sig syscall.Signal, names ...string) error {
	procs, err := l.daemons(node, names)
	errs := []error{err}
	for _, p := range procs {
		errs = append(errs, p.signal(sig))
	}
	for _, p := range procs {
		errs = append(errs, p.wait(ctx))
	}
	return errors.Join(errs...)
}

// KillDaemon ends a daemon without giving it a chance to do anything.
func (l *Lab) KillDaemon(ctx context.Context, node, name string) error {
	return l.StopNode(ctx, node, unix.SIGKILL, name)
}

// KillNode ends all daemons of a node without giving them a chance.
func (l *Lab) KillNode(ctx context.Context, node string) error {
	return l.StopNode(ctx, node, unix.SIGKILL)
}

// Pause stops the named daemons of a node, or all, in their tracks (SIGSTOP).
func (l *Lab) Pause(node string, names ...string) error {
	return l.SignalDaemons(node, unix.SIGSTOP, names...)
}

// Resume ends Pause.
func (l *Lab) Resume(node string, names ...string) error {
	return l.SignalDaemons(node, unix.SIGCONT, names...)
}

// SignalDaemons sends a signal to the named daemons of a node, or to all,
// and does not wait.
func (l *Lab) SignalDaemons(node string, sig syscall.Signal, names ...string) error {
	procs, err := l.daemons(node, names)
	errs := []error{err}
	for _, p := range procs {
		errs = append(errs, p.signal(sig))
	}
	return errors.Join(errs...)
}

// Daemon returns the process of a daemon; false if it was never started.
func (l *Lab) Daemon(node, name string) (Process, bool) { return l.process(node, name) }

// Ask sends a GET request to a daemon's socket, such as for "/status", and
// returns the answer.
func (l *Lab) Ask(ctx context.Context, node, name, path string) ([]byte, error) {
	if _, err := l.checkDaemon(node, name); err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", ownership.Socket(l.StateDir(node), name))
		},
	}}
	body, err := get(ctx, client, "http://"+name+path)
	if err != nil {
		return nil, fmt.Errorf("asking %s on %s: %w", name, node, err)
	}
	return body, nil
}

// daemons returns the named daemons of a node that were started, or all.
func (l *Lab) daemons(node string, names []string) ([]Process, error) {
	if err := l.checkNode(node); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = DaemonNames()
	}
	var procs []Process
	for _, name := range names {
		if _, err := l.checkDaemon(node, name); err != nil {
			return nil, err
		}
		if p, ok := l.process(node, name); ok {
			procs = append(procs, p)
		}
	}
	return procs, nil
}
