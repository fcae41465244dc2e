package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// server counts connections.
type server struct {
	net.Listener
	count atomic.Int64
}

// count listens in a pod, at a port that nothing else of the rig uses.
func (r *rig) count(pod string, port uint16) *server {
	r.t.Helper()
	s := &server{}
	r.check(r.pods[pod].Do(func() (err error) {
		s.Listener, err = net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(pod), port).String())
		return err
	}))
	r.t.Cleanup(func() { _ = s.Close() }) // some are closed already
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			s.count.Add(1)
			_ = c.Close()
		}
	}()
	return s
}

// load connects a thousand times a second and counts what becomes of it.
type load struct {
	good, bad atomic.Int64
	stop      chan struct{}
	wg        sync.WaitGroup
}

func (r *rig) load(to netip.AddrPort) *load {
	l := &load{stop: make(chan struct{})}
	control := func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(err, c.Control(func(fd uintptr) { // leaves no port in TIME_WAIT
			err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}))
	}
	const workers = 8
	for range workers {
		l.wg.Go(func() {
			_ = r.outside.Do(func() error {
				tick := time.NewTicker(workers * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-l.stop:
						return nil
					case <-tick.C:
					}
					d := net.Dialer{Timeout: time.Second, Control: control}
					c, err := d.Dial("tcp", to.String())
					if err != nil {
						l.bad.Add(1)
						continue
					}
					l.good.Add(1)
					_ = c.Close()
				}
			})
		})
	}
	r.t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wg.Wait()
}

func TestNetnsAThousandConnectionsASecondSurviveABackend(t *testing.T) {
	const at = 6443
	r := newRig(t)
	var pods []string
	servers := map[string]*server{}
	for n := 2; n < 5; n++ {
		pod, _ := r.pod(n)
		pods = append(pods, pod)
		servers[pod] = r.count(pod, at)
	}
	r.WriteNode(r.node)
	r.Write(ownership.Elector, "grant", &schema.Grant{Boot: r.Boot, ValidUntil: map[schema.GrantName]int64{schema.GrantControlPlane: 1 << 62}})
	r.Start()
	r.balancedAt(at, pods...)
	l := r.load(netip.AddrPortFrom(netip.MustParseAddr(vip4), at))

	// share is what each backend gets from now on.
	share := func(alive ...string) {
		t.Helper()
		before := map[string]int64{}
		for pod, s := range servers {
			before[pod] = s.count.Load()
		}
		bad, from := l.bad.Load(), l.good.Load()
		time.Sleep(1500 * time.Millisecond)
		total := l.good.Load() - from
		if lost := l.bad.Load() - bad; lost > 0 || total == 0 {
			t.Errorf("with %v: %d connections, %d failed", alive, total, lost)
		}
		text := ""
		for _, pod := range alive {
			n := servers[pod].count.Load() - before[pod]
			text += fmt.Sprintf(" %s %d", pod, n)
			if even := total / int64(len(alive)); n < even*7/10 || n > even*13/10 {
				t.Errorf("%s got %d of %d connections with %d backends", pod, n, total, len(alive))
			}
		}
		t.Logf("%d connections:%s", total, text)
	}
	share(pods...)
	dead := pods[0]
	r.check(servers[dead].Close())
	r.eventually("connections to the dead one fail", func() bool { return l.bad.Load() > 0 })
	r.balancedAt(at, pods[1:]...) // as elector does once it has noticed
	time.Sleep(50 * time.Millisecond)
	share(pods[1:]...)
	r.Kill() // without egressd all goes on
	share(pods[1:]...)
	r.Start()
	servers[dead] = r.count(dead, at)
	r.balancedAt(at, pods...)
	share(pods...)
	t.Logf("%d connections came about, %d failed while elector had not noticed", l.good.Load(), l.bad.Load())
}
