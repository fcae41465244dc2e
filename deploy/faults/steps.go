package faults

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
)

// A step that comes again and again, such as a renewal, is counted so far.
const repeats = 3

// step is something that a daemon of a node does, seen from outside: a
// document that it begins to write, has written or removed, a line of its
// log, a change of the kernel, a frame, a write to the API server.
type step struct {
	daemon, what string
	// nth counts the steps of that name, from 1.
	nth int
}

func (s step) String() string { return fmt.Sprintf("%s %s #%d", s.daemon, s.what, s.nth) }

// recorder tells the steps of all daemons of a node as they happen.
type recorder struct {
	w     *World
	node  string
	saw   func(step)
	mu    sync.Mutex
	count map[step]int
	tasks sync.WaitGroup
	stop  context.CancelFunc
	files *fsnotify.Watcher
	wire  *probe.Capture
	read  map[string]int64 // how much of each log was read
}

// record starts to tell steps to saw, which is called for one at a time.
func (w *World) record(ctx context.Context, node string, saw func(step)) (*recorder, error) {
	ctx, stop := context.WithCancel(ctx)
	r := &recorder{w: w, node: node, saw: saw, count: map[step]int{}, stop: stop, read: map[string]int64{}}
	err := errors.Join(r.watchFiles(), w.InNS(lanRole, func() (err error) {
		r.wire, err = probe.Listen(node)
		return err
	}))
	if err != nil {
		r.close()
		return nil, fmt.Errorf("recording the steps of %s: %w", node, err)
	}
	r.tasks.Go(func() { r.followFiles() })
	r.tasks.Go(func() { r.followWire(ctx) })
	r.followKernel(ctx)
	return r, errors.Join(r.followAPI(ctx))
}

func (r *recorder) close() {
	r.stop()
	if r.files != nil {
		_ = r.files.Close()
	}
	r.tasks.Wait()
	if r.wire != nil {
		r.wire.Close()
	}
}

func (r *recorder) note(daemon, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := step{daemon: daemon, what: fmt.Sprintf(format, args...)}
	r.count[s]++
	if n := r.count[s]; n <= repeats {
		r.saw(step{s.daemon, s.what, n})
	}
}

// watchFiles watches what every daemon of the node writes, and its log.
func (r *recorder) watchFiles() (err error) {
	if r.files, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	for _, d := range ownership.Table() {
		dirs := []string{ownership.Dir(r.w.StateDir(r.node), d.Name)}
		if _, err := os.Stat(ownership.VIPs(r.w.StateDir(r.node), d.Name)); err == nil {
			dirs = append(dirs, ownership.VIPs(r.w.StateDir(r.node), d.Name))
		}
		log := r.w.LogPath(r.node, d.Name)
		info, err := os.Stat(log)
		if err != nil {
			return err
		}
		r.read[log] = info.Size()
		for _, path := range append(dirs, log) {
			if err := r.files.Add(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *recorder) followFiles() {
	go func() {
		for range r.files.Errors { // an overflow: the steps come again
		}
	}()
	for e := range r.files.Events {
		if _, ok := r.read[e.Name]; ok {
			r.readLog(e.Name)
			continue
		}
		path := strings.TrimPrefix(e.Name, r.w.StateDir(r.node)+"/")
		daemon, _, _ := strings.Cut(path, "/")
		switch temporary := strings.HasPrefix(filepath.Base(path), "."); {
		case temporary && e.Has(fsnotify.Create):
			r.note(daemon, "begins to write to %s", filepath.Dir(path))
		case !temporary && e.Has(fsnotify.Create):
			r.note(daemon, "has written %s", path)
		case !temporary && e.Has(fsnotify.Remove):
			r.note(daemon, "has removed %s", path)
		}
	}
}

var message = regexp.MustCompile(`msg=("[^"]*"|\S+)`)

// readLog tells the lines that a log has got.
func (r *recorder) readLog(path string) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	data := make([]byte, 64<<10)
	n, _ := file.ReadAt(data, r.read[path])
	end := strings.LastIndexByte(string(data[:n]), '\n') + 1
	r.read[path] += int64(end)
	daemon := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), r.node+"-"), ".log")
	for line := range strings.Lines(string(data[:end])) {
		if m := message.FindStringSubmatch(line); m != nil {
			r.note(daemon, "says %s", strings.Trim(m[1], `"`))
		}
	}
}

// followKernel tells changes of addresses and of nftables.
func (r *recorder) followKernel(ctx context.Context) {
	monitor := func(protocol int, handle func(syscall.NetlinkMessage) bool, groups ...uint) {
		r.tasks.Go(func() {
			_ = r.w.InNS(r.node, func() error {
				return netsafe.Monitor(ctx, protocol, handle, func() {}, groups...)
			})
		})
	}
	monitor(unix.NETLINK_ROUTE, func(m syscall.NetlinkMessage) bool {
		if attrs, err := syscall.ParseNetlinkRouteAttr(&m); err == nil {
			for _, a := range attrs {
				if ip, ok := netip.AddrFromSlice(a.Value); ok && a.Attr.Type == unix.IFA_ADDRESS && slices.Contains(r.w.VIP.Slice(), ip) {
					verb := map[uint16]string{unix.RTM_NEWADDR: "has added", unix.RTM_DELADDR: "has deleted"}[m.Header.Type]
					r.note(ownership.Vipd, "%s %s", verb, ip)
				}
			}
		}
		return false
	}, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	monitor(unix.NETLINK_NETFILTER, func(m syscall.NetlinkMessage) bool {
		if int(m.Header.Type&0xff) == unix.NFT_MSG_NEWGEN {
			r.note(ownership.Vipd, "has changed nftables")
		}
		return false
	}, unix.NFNLGRP_NFTABLES)
}

// followWire tells announcements.
func (r *recorder) followWire(ctx context.Context) {
	for seen := map[netip.Addr]int{}; pause(ctx, time.Millisecond) == nil; {
		for _, addr := range r.w.VIP.Slice() {
			claims := slices.DeleteFunc(r.wire.Claims(addr), func(f probe.Frame) bool { return !f.Unsolicited })
			for range claims[seen[addr]:] {
				r.note(ownership.Arpd, "has announced %s", addr)
			}
			seen[addr] = len(claims)
		}
	}
}

// followAPI tells what the elector writes there.
func (r *recorder) followAPI(ctx context.Context) error {
	leases, err := r.w.Client().CoordinationV1().Leases(lab.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=vipod-" + r.node,
	})
	if err != nil {
		return fmt.Errorf("watching the Lease of %s: %w", r.node, err)
	}
	services, err := r.w.Client().CoreV1().Services(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + r.w.Service,
	})
	if err != nil {
		leases.Stop()
		return fmt.Errorf("watching Service %s: %w", r.w.Service, err)
	}
	r.tasks.Go(func() {
		defer leases.Stop()
		defer services.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-leases.ResultChan():
				r.note(ownership.Elector, "has updated its Lease")
			case e := <-services.ResultChan():
				if s, ok := e.Object.(*corev1.Service); ok && len(s.Status.LoadBalancer.Ingress) > 0 {
					r.note(ownership.Elector, "has written the Service's status")
				}
			}
		}
	})
	return nil
}
