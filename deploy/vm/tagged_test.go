package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// onNode are the daemons that the tagged node runs.
var onNode = []string{ownership.Linkd, ownership.Vipd, ownership.Arpd}

const (
	tag     = 200
	vlan    = "eth0.200"
	tagged4 = "203.0.113.7"
	tagged6 = "2001:db8:200::7"
	// lanVLAN is the client's side of the VLAN.
	lanVLAN = "lan0.200"
)

// taggedNode is a node with the programs themselves, each under its own uid
// with its own capabilities, and a client that it reaches over a VLAN only.
type taggedNode struct {
	*statetest.Pod
	t         *testing.T
	node, lan *nstest.NS
	daemons   map[string]*statetest.Process
}

func newTaggedNode(t *testing.T) *taggedNode {
	t.Helper()
	n := &taggedNode{
		Pod: statetest.New(t), t: t, node: nstest.Peer(t), lan: nstest.Peer(t), daemons: map[string]*statetest.Process{},
	}
	links := ownership.Links(n.Dir)
	n.must(errors.Join(os.Mkdir(links, ownership.DirMode), os.Chown(links, ownership.UID(ownership.Linkd), ownership.Group)))
	nstest.Veth(t, n.node, "eth0", n.lan, "lan0")
	n.node.Add(t, "eth0", "198.51.100.11/24")
	n.must(n.lan.Do(func() error { return addVLAN("lan0", lanVLAN, tag) }))
	n.lan.Add(t, lanVLAN, "203.0.113.1/24")
	n.lan.Add(t, lanVLAN, "2001:db8:200::1/64")
	n.WriteNode(n.Node())
	n.Grant(time.Hour)
	n.must(n.node.Do(func() error {
		for _, name := range onNode {
			d := n.Process(name)
			d.Program("/bin/" + name)
			d.Start()
			n.daemons[name] = d
		}
		return nil
	}))
	n.serve()
	return n
}

func (n *taggedNode) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// addVLAN makes a VLAN on a link of the calling thread's namespace, and sets it
// up.
func addVLAN(parent, name string, id int) error {
	link, err := netlink.LinkByName(parent)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = name, link.Attrs().Index
	v := &netlink.Vlan{LinkAttrs: attrs, VlanId: id, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	if err := netlink.LinkAdd(v); err != nil {
		return err
	}
	return netlink.LinkSetUp(v)
}

const greeting = "hello from the node"

// serve answers HTTP on every address of the node, as a pod would behind the
// Service's proxy.
func (n *taggedNode) serve() {
	n.t.Helper()
	var l net.Listener
	n.must(n.node.Do(func() (err error) { l, err = net.Listen("tcp", ":80"); return err }))
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, greeting) }),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = s.Serve(l) }() // it ends when the test closes it
	n.t.Cleanup(func() { _ = s.Close() })
}

// get asks for a page at an address as the client.
func (n *taggedNode) get(ip string) (page string, err error) {
	err = n.lan.Do(func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.MustParseAddr(ip), 80).String(), time.Second)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // all is read
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }() // only read
		body, err := io.ReadAll(answer.Body)
		page = string(body)
		return err
	})
	return page, err
}

// alias is that of the node's VLAN, "" where there is none.
func (n *taggedNode) alias() (alias string) {
	n.t.Helper()
	n.must(n.node.Do(func() error {
		link, err := netlink.LinkByName(vlan)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return nil
		}
		if err == nil {
			alias = link.Attrs().Alias
		}
		return err
	}))
	return alias
}

// routeBack leads the node's answers to the client over the VLAN: vipd makes no
// routes, that is the administrator's.
func (n *taggedNode) routeBack() {
	n.t.Helper()
	n.must(n.node.Do(func() error {
		link, err := netlink.LinkByName(vlan)
		for _, network := range []string{"203.0.113.0/24", "2001:db8:200::/64"} {
			if err == nil {
				route := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK}
				if route.Dst, err = netlink.ParseIPNet(network); err == nil {
					err = netlink.RouteAdd(route)
				}
			}
		}
		return err
	}))
}

// tagged returns the document of a Service on the VLAN, as elector writes it.
func tagged(key string) *schema.VIP {
	v := statetest.VIP(key, schema.StateActive, vlan, tagged4, tagged6)
	v.Links = []schema.LinkSpec{{Kind: schema.LinkVLAN, Name: vlan, Parent: "eth0", VLAN: tag}}
	return v
}

// programs are the daemons' in the machine.
func programs(t *testing.T) map[string]string {
	t.Helper()
	dir := os.Getenv("VIPOD_BIN_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	files := map[string]string{}
	for _, name := range onNode {
		files["bin/"+name] = filepath.Join(dir, name)
		if _, err := os.Stat(files["bin/"+name]); err != nil {
			t.Fatalf("%v (make build-daemons makes it)", err)
		}
	}
	return files
}

func TestVMAVIPOnAVLANIsServedFromItsDocumentToTheAnswer(t *testing.T) {
	if os.Getenv(inMachine) == "" {
		modules := append([]string{"nf_tables", "nfnetlink"}, linkModules...)
		passWith(t, Test{Package: ".", Modules: modules, Files: programs(t)}, t.Name())
		return
	}
	n := newTaggedNode(t)
	var frames *probe.Capture
	n.must(n.lan.Do(func() (err error) { frames, err = probe.Listen(lanVLAN); return err }))
	t.Cleanup(frames.Close)
	begin := time.Now()
	n.WriteVIP(tagged("default.web"))
	both := []string{tagged4, tagged6}
	statetest.Eventually(t, "the VLAN is there", func() bool { return n.alias() != "" })
	n.routeBack()
	for _, ip := range both {
		statetest.Eventually(t, ip+" answers", func() bool { page, err := n.get(ip); return err == nil && page == greeting })
	}
	t.Logf("both families answer %v after the document was written", time.Since(begin))
	for _, ip := range both {
		statetest.Eventually(t, ip+" is announced on the VLAN", func() bool {
			for _, f := range frames.Claims(netip.MustParseAddr(ip)) {
				if f.Unsolicited {
					return true
				}
			}
			return false
		})
	}
	if got := n.alias(); got != "vipod::default.web" {
		t.Errorf("the VLAN's alias is %q", got)
	}

	// Another Service uses the VLAN, and keeps it.
	n.WriteVIP(tagged("default.other"))
	statetest.Eventually(t, "the other one is present", func() bool {
		s, err := n.Status(ownership.Vipd, "default.other")
		return err == nil && schema.IsTrue(s.Conditions, schema.ConditionPresent)
	})
	n.DropVIP("default.web")
	statetest.Eventually(t, "the other one owns the VLAN", func() bool { return n.alias() == "vipod::default.other" })
	for _, ip := range both {
		if page, err := n.get(ip); err != nil || page != greeting {
			t.Errorf("%s does not answer any more: %q, %v", ip, page, err)
		}
	}
	n.DropVIP("default.other")
	statetest.Eventually(t, "nothing is left", func() bool { return n.alias() == "" })
	if _, err := n.get(tagged4); err == nil || strings.Contains(fmt.Sprint(err), "refused") {
		t.Errorf("asked after the end: %v", err)
	}
}
