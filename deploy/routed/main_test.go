package routed

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

const (
	router   = "client"
	nodeAS   = 65000
	routerAS = 65001
	patience = 20 * time.Second
)

// cluster is a lab in one of the modes.
type cluster struct {
	*trial.Cluster
	t   *testing.T
	ctx context.Context
	vip int
	// peers is the file of peers.
	peers string
}

// start makes a lab with the settings.
func start(t *testing.T, env ...string) *cluster {
	t.Helper()
	bin := os.Getenv("VIPOD_BIN_DIR")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	if err := lab.Check(lab.Options{BinDir: bin}); err != nil {
		if os.Getenv("VIPOD_REQUIRE_NETNS") == "1" {
			t.Fatalf("no lab can run here: %v", err)
		}
		t.Skipf("no lab can run here: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	name := "rt" + strconv.FormatInt(int64(os.Getpid()), 36)
	c, err := trial.Start(ctx, trial.Options{
		Name: name, Root: filepath.Join("..", ".."), Bin: bin, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Env: append([]string{
			"vip_arp=false", "control_plane_health_check_period_seconds=500ms", "control_plane_health_check_failure_threshold=2",
			"vipod_service_cidr=" + lab.Services4.String() + "," + lab.Services6.String(),
		}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	k := &cluster{Cluster: c, t: t, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			k.logTails()
		}
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// logTails shows the ends of the daemons' logs.
func (c *cluster) logTails() {
	for _, node := range c.Nodes() {
		for _, name := range lab.DaemonNames() {
			data, err := os.ReadFile(c.LogPath(node, name))
			if err != nil {
				continue
			}
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			c.t.Logf("%s on %s:\n%s", name, node, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	}
}

// eventually waits for a condition.
func (c *cluster) eventually(what string, ok func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > patience {
			c.t.Fatalf("waited %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin)
}

// next returns addresses that are on no link of the lab: from the ranges of
// pods that no node has.
func (c *cluster) next() []netip.Addr {
	c.vip++
	return []netip.Addr{
		netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", 100+c.vip)), netip.MustParseAddr(fmt.Sprintf("2001:db8:0:9::%x", c.vip)),
	}
}

// bird is the router's BIRD.
type bird struct {
	c   *cluster
	dir string
	cmd *exec.Cmd
}

// startBird starts it with a session to each node by each family.
func (c *cluster) startBird(options string) *bird {
	c.t.Helper()
	b := &bird{c: c, dir: c.t.TempDir()}
	conf := fmt.Sprintf(`log %q all;
router id 198.51.100.100;
protocol device { scan time 1; }
protocol bfd { interface "eth0" { min rx interval 50 ms; min tx interval 50 ms; multiplier 3; }; }
protocol kernel { ipv4 { import none; export all; }; merge paths yes limit 16; }
protocol kernel { ipv6 { import none; export all; }; merge paths yes limit 16; }
`, b.path("log"))
	for _, node := range c.Nodes() {
		addrs, err := lab.NodeAddrs(node)
		c.must(err)
		for family, ip := range map[string]netip.Addr{"ipv4": addrs.V4, "ipv6": addrs.V6} {
			conf += fmt.Sprintf("protocol bgp %s_%s { local as %d; neighbor %s as %d; passive on; error wait time 1, 2; %s { import all; export none; }; %s }\n",
				node, family, routerAS, ip, nodeAS, family, options)
		}
	}
	c.must(os.WriteFile(b.path("conf"), []byte(conf), 0o644))
	c.must(c.InNS(router, func() error {
		// It spreads by connections, and is told its routes by nobody but BIRD: a
		// node whose kube-proxy does not know a VIP yet sends it an ICMP redirect.
		for key, value := range map[string]string{
			"ipv4/fib_multipath_hash_policy": "1", "ipv6/fib_multipath_hash_policy": "1",
			"ipv4/conf/all/accept_redirects": "0", "ipv4/conf/eth0/accept_redirects": "0", "ipv6/conf/eth0/accept_redirects": "0",
		} {
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		b.cmd = exec.Command("/usr/sbin/bird", "-f", "-c", b.path("conf"), "-s", b.path("ctl"), "-P", b.path("pid"))
		b.cmd.Stderr = os.Stderr
		return b.cmd.Start()
	}))
	c.t.Cleanup(func() {
		_ = b.cmd.Process.Signal(syscall.SIGKILL) // the namespace goes
		_ = b.cmd.Wait()
	})
	return b
}

func (b *bird) path(name string) string { return filepath.Join(b.dir, name) }

// hops returns the next hops of an address in the router's routing table.
func (c *cluster) hops(ip netip.Addr) []string {
	family := "-4"
	if ip.Is6() {
		family = "-6"
	}
	out, err := c.Exec(c.ctx, router, "ip", family, "route", "show", netip.PrefixFrom(ip, ip.BitLen()).String())
	if err != nil {
		return nil
	}
	var hops []string
	words := strings.Fields(string(out))
	for i, w := range words {
		if w == "via" {
			hops = append(hops, words[i+1])
		}
	}
	return hops
}

// awaitHops waits until the router has so many next hops for each address.
func (c *cluster) awaitHops(n int, ips ...netip.Addr) {
	c.t.Helper()
	for _, ip := range ips {
		c.eventually(fmt.Sprintf("the router has %d next hops for %s", n, ip), func() bool { return len(c.hops(ip)) == n })
	}
}
