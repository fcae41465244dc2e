package linkd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vipod/vipod/linkd/internal/reconcile"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/statetest"
)

func TestMain(m *testing.M) {
	statetest.Main(m, func() int {
		p := daemon.Program{Name: ownership.Linkd, Run: Run, Status: PrintStatus}
		return p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

// world is a node with linkd as a process under its own uid, and a LAN with
// real servers in another namespace.
type world struct {
	*statetest.Pod
	*statetest.Process
	t         *testing.T
	node, lan *nstest.NS
	dir       string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Pod: statetest.New(t), t: t, node: nstest.Peer(t), lan: nstest.Peer(t), dir: t.TempDir()}
	for _, sub := range []string{"links"} {
		path := filepath.Join(ownership.Dir(w.Dir, ownership.Linkd), sub)
		w.must(os.Mkdir(path, ownership.DirMode))
		w.must(os.Chown(path, ownership.UID(ownership.Linkd), ownership.Group))
	}
	nstest.Veth(t, w.node, "eth0", w.lan, "lan0")
	w.lan.Add(t, "lan0", "198.51.100.1/24")
	w.lan.Add(t, "lan0", "2001:db8::1/64")
	w.node.Add(t, "eth0", "198.51.100.11/24")
	w.WriteNode(w.Node())
	w.Grant(time.Hour)
	w.Process = w.Pod.Process(ownership.Linkd)
	w.start()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts linkd on the node.
func (w *world) start() {
	w.t.Helper()
	w.must(w.node.Do(func() error { w.Start(); return nil }))
}

// server is a DHCP server at work.
type server struct {
	cmd *exec.Cmd
	log *output
}

// output is a log that is written and read side by side.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// run runs a program in the LAN's namespace until the test ends.
func (w *world) run(name string, args ...string) *server {
	w.t.Helper()
	s := &server{cmd: exec.Command(name, args...), log: &output{}}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	w.must(w.lan.Do(s.cmd.Start))
	w.t.Cleanup(func() { s.stop(); w.t.Logf("%s said:\n%s", name, s.log) })
	return s
}

func (s *server) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended by itself
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// dnsmasq runs dnsmasq with the options besides those that it always needs.
func (w *world) dnsmasq(options ...string) *server {
	w.t.Helper()
	args := []string{
		"--keep-in-foreground", "--port=0", "--interface=lan0", "--bind-interfaces", "--except-interface=lo", "--conf-file=/dev/null",
		"--log-facility=-", "--log-dhcp", "--no-ping", "--pid-file=", "--user=root", "--dhcp-leasefile=" + filepath.Join(w.dir, "leases"),
	}
	s := w.run("dnsmasq", append(args, options...)...)
	statetest.Eventually(w.t, "dnsmasq serves", func() bool { return s.said("IP range") > 0 })
	return s
}

// vip returns the document of a Service with a macvlan on eth0.
func vip(key string, spec schema.DHCPSpec) *schema.VIP {
	v := statetest.VIP(key, schema.StateActive, "eth0")
	v.Links = []schema.LinkSpec{{Kind: schema.LinkMacvlan, Name: "vip-1", Parent: "eth0", MAC: "02:00:00:00:00:09", DHCP: &spec}}
	return v
}

// report is linkd's report about a VIP, empty if there is none.
func (w *world) report(key string) schema.LinkStatus {
	s, _ := statefile.Read[schema.LinkStatus](filepath.Join(ownership.Links(w.Dir), key+".json"), ownership.UID(ownership.Linkd))
	return s
}

// leased waits for a lease of the family that ok likes, and returns it.
func (w *world) leased(key string, is4 bool, ok func(schema.Lease) bool) schema.Lease {
	w.t.Helper()
	var found schema.Lease
	statetest.Eventually(w.t, "a lease for "+key, func() bool {
		for _, l := range w.report(key).Leases {
			if l.IP.Is4() == is4 && (ok == nil || ok(l)) {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

// use puts a leased address on its link, as vipd does, so that the server's
// unicast answers arrive.
func (w *world) use(l schema.Lease) {
	w.t.Helper()
	w.must(w.node.Do(func() error {
		link, err := netlink.LinkByName(l.Interface)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", l.IP, l.IP.BitLen()))
		if err != nil {
			return err
		}
		return netlink.AddrReplace(link, addr)
	}))
}

// link returns a link of the node, nil if it is not there.
func (w *world) link(name string) (found netlink.Link) {
	w.t.Helper()
	w.must(w.node.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err == nil {
			found = link
		}
		return nil
	}))
	return found
}

// counts are those of linkd's only client.
func (w *world) client() reconcile.ClientReport {
	w.t.Helper()
	var r reconcile.Report
	out, err := w.Ask("/status")
	if err != nil {
		return reconcile.ClientReport{} // not started yet
	}
	w.must(decode(out, &r))
	for _, l := range r.Links {
		for _, c := range l.Clients {
			return c
		}
	}
	return reconcile.ClientReport{}
}

// sent counts how often the LAN saw a line in a server's log.
func (s *server) said(words ...string) (n int) {
	for line := range strings.Lines(s.log.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}

// names are all links of the node.
func (w *world) names() (names []string) {
	w.t.Helper()
	w.must(w.node.Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			names = append(names, l.Attrs().Name)
		}
		return err
	}))
	return names
}
