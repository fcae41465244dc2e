package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/ownership"
)

// TestLab goes through what a lab offers, on one lab.
func TestLab(t *testing.T) {
	l := upForTest(t, Options{
		Name: "tone", BinDir: binDir(t), Env: []string{"vip_arp=true", "lab_env=option"},
		Manifests: []string{filepath.Join("testdata", "role.yaml")},
	})
	for _, sub := range []struct {
		name string
		test func(*testing.T, *Lab)
	}{
		{"Open", testOpen},
		{"NodePortAndClusterIP", testNodePortAndClusterIP},
		{"LoadBalancer", testLoadBalancer},
		{"AddPod", testAddPod},
		{"Token", testToken},
		{"Privileges", testPrivileges},
		{"DaemonLife", testDaemonLife},
		{"Cut", testCut},
		{"CutAPI", testCutAPI},
		{"APIServer", testAPIServer},
		{"Strays", testStrays},
	} {
		t.Run(sub.name, func(t *testing.T) { sub.test(t, l) })
	}
}

func testOpen(t *testing.T, l *Lab) {
	opened, err := Open(l.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"n1", "n2", "n3"}, opened.Nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	nodes, err := opened.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 3 {
		t.Errorf("the API server knows %d nodes, want 3", len(nodes.Items))
	}
	if _, err := Up(t.Context(), l.opts); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("Up again: %v, want that it exists already", err)
	}
	if _, err := Open("nolab", nil); err == nil {
		t.Error("Open of a lab that is not up gives no error")
	}
}

// testNodePortAndClusterIP goes through kube-proxy to a pod on another node.
func testNodePortAndClusterIP(t *testing.T, l *Lab) {
	service, err := l.CreateService(t.Context(), ServiceSpec{Name: "web", Pods: []string{"p1"}})
	if err != nil {
		t.Fatal(err)
	}
	node, err := NodeAddrs("n3")
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range node.Slice() {
		port := uint16(service.Spec.Ports[0].NodePort)
		wantAnswer(t, l, "client", netip.AddrPortFrom(addr, port), "p1")
	}
	if len(service.Spec.ClusterIPs) != 2 {
		t.Fatalf("ClusterIPs %q, want both families", service.Spec.ClusterIPs)
	}
	for _, text := range service.Spec.ClusterIPs {
		wantAnswer(t, l, "n2", netip.AddrPortFrom(netip.MustParseAddr(text), 80), "p1")
	}
	if err := l.SetEndpoints(t.Context(), "web", "p2"); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, l, "client", netip.AddrPortFrom(node.V4, uint16(service.Spec.Ports[0].NodePort)), "p2")
	if err := l.DeleteService(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
}

func wantAnswer(t *testing.T, l *Lab, from string, addr netip.AddrPort, pod string) {
	t.Helper()
	eventually(t, fmt.Sprintf("asking %s from %s", addr, from), func() error {
		answer, err := l.Get(t.Context(), from, addr)
		if err == nil && answer.Pod != pod {
			err = fmt.Errorf("%s answers, want %s", answer.Pod, pod)
		}
		return err
	})
}

// testLoadBalancer puts a virtual IP on a node by hand, measures it, and moves
// it to another one.
func testLoadBalancer(t *testing.T, l *Lab) {
	vips := VIP(7)
	service, err := l.CreateService(t.Context(), ServiceSpec{
		Name: "lb", VIPs: vips.Slice(), Class: "example.org/lab", Pods: []string{"p1", "p3"},
		Policy: corev1.ServiceExternalTrafficPolicyCluster, Annotations: map[string]string{"a": "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := service.Annotations[AnnotationVIPs], "198.51.100.207,2001:db8:0:1::207"; got != want {
		t.Errorf("annotation %q, want %q", got, want)
	}
	for _, vip := range vips.Slice() {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: vip.String()})
	}
	_, err = l.Client().CoreV1().Services("default").UpdateStatus(t.Context(), service, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, vip := range vips.Slice() {
		t.Run(vip.String(), func(t *testing.T) { testMove(t, l, vip) })
	}
	if err := l.DeleteService(t.Context(), "lb"); err != nil {
		t.Fatal(err)
	}
}

func testMove(t *testing.T, l *Lab, vip netip.Addr) {
	network := LAN4
	if vip.Is6() {
		network = LAN6
	}
	add := addrAdd(vip, network, "eth0")
	if err := ipBatch(t.Context(), l.NS("n2"), add); err != nil {
		t.Fatal(err)
	}
	eventually(t, "asking the virtual IP", func() error {
		_, err := l.Get(t.Context(), "client", netip.AddrPortFrom(vip, 80))
		return err
	})
	capture, err := inClient(l, func() (*probe.Capture, error) { return probe.Listen("eth0") })
	if err != nil {
		t.Fatal(err)
	}
	defer capture.Close()
	ping, err := inClient(l, func() (*probe.Prober, error) {
		return probe.Start(probe.Options{Iface: "eth0", Target: vip})
	})
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := inClient(l, func() (*probe.Prober, error) {
		return probe.Start(probe.Options{Iface: "eth0", Target: vip, UDPPort: UDPPort})
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := ipBatch(t.Context(), l.NS("n2"), strings.Replace(add, "replace", "del", 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if err := ipBatch(t.Context(), l.NS("n3"), add); err != nil {
		t.Fatal(err)
	}
	// Nobody announces here, so the client has to ask again.
	if _, err := l.Exec(t.Context(), "client", "ip", "neigh", "flush", "to", vip.String()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	for name, result := range map[string]probe.Result{"ping": ping.Stop(), "udp": datagrams.Stop()} {
		t.Logf("%s: sent %d, received %d, gap %v, %v", name, result.Sent, result.Received, result.Gap, result.Answerers)
		if result.Gap < 150*time.Millisecond || result.Gap > 2*time.Second {
			t.Errorf("%s: longest gap %v, want about 200ms", name, result.Gap)
		}
		if result.Received < 100 || result.Received > result.Sent {
			t.Errorf("%s: %d answers to %d questions", name, result.Received, result.Sent)
		}
		if len(result.Answerers) != 2 {
			t.Errorf("%s: %d machines answered, want the two that had the address", name, len(result.Answerers))
		}
	}
	if got := capture.Claimants(vip); len(got) != 1 || got[0] != macOf(t, l, "n3") {
		t.Errorf("claimed by %v, want only n3 (%v); frames %v", got, macOf(t, l, "n3"), capture.Claims(vip))
	}
	if err := ipBatch(t.Context(), l.NS("n3"), strings.Replace(add, "replace", "del", 1)); err != nil {
		t.Fatal(err)
	}
}

// inClient makes something in the client's namespace.
func inClient[T any](l *Lab, open func() (T, error)) (made T, err error) {
	err = l.InNS("client", func() error {
		made, err = open()
		return err
	})
	return made, err
}

func macOf(t *testing.T, l *Lab, role string) probe.MAC {
	t.Helper()
	var mac probe.MAC
	err := l.InNS(role, func() error {
		link, err := net.InterfaceByName("eth0")
		if err == nil {
			mac = probe.MAC(link.HardwareAddr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

func testAddPod(t *testing.T, l *Lab) {
	pod, err := l.AddPod(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Name != "p4" || pod.Node != "n1" {
		t.Errorf("made pod %s on %s, want p4 on n1", pod.Name, pod.Node)
	}
	for _, addr := range pod.Slice() {
		wantAnswer(t, l, "n3", netip.AddrPortFrom(addr, HTTPPort), "p4")
		wantAnswer(t, l, "p2", netip.AddrPortFrom(addr, HTTPPort), "p4")
	}
	if _, err := l.AddPod(t.Context(), "n4"); err == nil {
		t.Error("a pod on n4, which does not exist, gives no error")
	}
}

// testToken uses the elector's kubeconfig on a node: through the relay, as
// the ServiceAccount, with no more rights than the manifest gives.
func testToken(t *testing.T, l *Lab) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig("n2"))
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return l.Dial(ctx, "n2", network, addr)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:kube-system:vipod"; got != want {
		t.Errorf("authenticated as %q, want %q", got, want)
	}
	if _, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing Services, which the manifest allows: %v", err)
	}
	if _, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("listing Secrets, which the manifest does not allow, gives no error")
	}
}

// testPrivileges reads what each daemon says about itself.
func testPrivileges(t *testing.T, l *Lab) {
	if err := l.StartNode(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	bits := map[string]uint64{"NET_ADMIN": 1 << 12, "NET_RAW": 1 << 13}
	for _, d := range ownership.Table() {
		text := awaitLog(t, l, "n2", d.Name, "ready\n")
		var caps uint64
		for _, name := range d.Capabilities {
			caps |= bits[name]
		}
		want := []string{
			fmt.Sprintf("args [%q %q %q]", "run", "--state-dir", l.StateDir("n2")),
			fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", d.UID),
			fmt.Sprintf("Gid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", ownership.Group),
			"NoNewPrivs:\t1\n", "env vip_nodename=n2\n", "env lab_env=option\n",
			fmt.Sprintf("kubeconfig %t\n", d.Token),
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			want = append(want, fmt.Sprintf("%s:\t%016x\n", set, caps))
		}
		for _, other := range ownership.Table() {
			want = append(want, fmt.Sprintf("write %s %t\n", other.Name, other.Name == d.Name),
				fmt.Sprintf("read %s true\n", other.Name))
		}
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%s does not say %q", d.Name, line)
			}
		}
		if t.Failed() {
			t.Logf("%s says:\n%s", d.Name, text)
		}
	}
	if err := l.StopNode(t.Context(), "n2", syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// awaitLog waits until a daemon has printed something and returns its log.
func awaitLog(t *testing.T, l *Lab, node, name, want string) (text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s on %s says %q", name, node, want), func() error {
		data, err := os.ReadFile(l.LogPath(node, name))
		text = string(data)
		if err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("it says:\n%s", text)
		}
		return err
	})
	return text
}

func testDaemonLife(t *testing.T, l *Lab) {
	const node, name = "n1", "arpd"
	start := func(env ...string) {
		t.Helper()
		if err := l.StartDaemon(t.Context(), node, name, env...); err != nil {
			t.Fatal(err)
		}
	}
	wantState := func(want string) {
		t.Helper()
		eventually(t, "state", func() error {
			p, _ := l.Daemon(node, name)
			if got := p.State(); got != want {
				return fmt.Errorf("%s is %s, want %s", name, got, want)
			}
			return nil
		})
	}
	start("lab_env=extra")
	awaitLog(t, l, node, name, "env lab_env=extra\n")
	awaitLog(t, l, node, name, "ready\n")
	if err := l.StartDaemon(t.Context(), node, name); err == nil {
		t.Error("starting a daemon that runs gives no error")
	}
	if err := l.Pause(node, name); err != nil {
		t.Fatal(err)
	}
	wantState("paused")
	if err := l.Resume(node, name); err != nil {
		t.Fatal(err)
	}
	wantState("running")
	if err := l.StopDaemon(t.Context(), node, name, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wantState("gone")
	awaitLog(t, l, node, name, "terminated\n")
	start()
	if err := l.KillNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	wantState("gone")
	if err := l.StartDaemon(t.Context(), node, "nosuchd"); err == nil {
		t.Error("starting a daemon that does not exist gives no error")
	}
}

func testCut(t *testing.T, l *Lab) {
	ctx := t.Context()
	node, err := NodeAddrs("n2")
	if err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string]struct {
		cut     func(context.Context, string) error
		carrier string
	}{
		"cut":     {l.Cut, "LOWER_UP"},
		"carrier": {l.CutCarrier, "NO-CARRIER"},
		"link":    {l.LinkDown, "state DOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			wantReachable(t, l, node, true)
			if err := fault.cut(ctx, "n2"); err != nil {
				t.Fatal(err)
			}
			wantReachable(t, l, node, false)
			out, err := l.Exec(ctx, "n2", "ip", "link", "show", "eth0")
			if err != nil || !strings.Contains(string(out), fault.carrier) {
				t.Errorf("the node sees %q, %v; want %s", out, err, fault.carrier)
			}
			if err := l.Heal(ctx, "n2"); err != nil {
				t.Fatal(err)
			}
			wantReachable(t, l, node, true)
			out, err = l.Exec(ctx, "n2", "ip", "-6", "route", "show", "default")
			if err != nil || len(out) == 0 {
				t.Errorf("default route after healing: %q, %v", out, err)
			}
		})
	}
}

// wantReachable asks kube-proxy's health port of a node from the client.
func wantReachable(t *testing.T, l *Lab, node Addrs, want bool) {
	t.Helper()
	for _, addr := range node.Slice() {
		eventually(t, fmt.Sprintf("reaching %s", addr), func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			conn, err := l.Dial(ctx, "client", "tcp", netip.AddrPortFrom(addr, 10256).String())
			if err == nil {
				err = conn.Close()
			}
			if (err == nil) != want {
				return fmt.Errorf("reachable %t, want %t: %w", err == nil, want, err)
			}
			return nil
		})
	}
}

func testCutAPI(t *testing.T, l *Lab) {
	node, err := NodeAddrs("n3")
	if err != nil {
		t.Fatal(err)
	}
	wantAPI(t, l, "n3", true)
	if err := l.CutAPI(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	wantAPI(t, l, "n3", false)
	wantAPI(t, l, "n2", true)
	wantReachable(t, l, node, true)
	if err := l.Heal(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	wantAPI(t, l, "n3", true)
}

// wantAPI asks the API server through a node's relay.
func wantAPI(t *testing.T, l *Lab, node string, want bool) {
	t.Helper()
	eventually(t, "API server through "+node, func() error {
		_, err := l.Exec(t.Context(), node, "curl", "-gskm", "1", "https://[::1]:6443/livez")
		if (err == nil) != want {
			return fmt.Errorf("answers %t, want %t: %w", err == nil, want, err)
		}
		return nil
	})
}

func testAPIServer(t *testing.T, l *Lab) {
	ctx := t.Context()
	for _, step := range []struct {
		name string
		do   func() error
		n1   bool // answers through n1
	}{
		{"stop relay", func() error { return l.StopRelay(ctx, "n1") }, false},
		{"start relay", func() error { return l.StartRelay(ctx, "n1") }, true},
		{"pause", l.PauseAPI, false},
		{"resume", l.ResumeAPI, true},
		{"stop", func() error { return l.StopAPI(ctx) }, false},
		{"start", func() error { return l.StartAPI(ctx) }, true},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		wantAPI(t, l, "n1", step.n1)
	}
	if _, err := l.Client().CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); err != nil {
		t.Errorf("Node n1 after the API server started again: %v", err)
	}
}

// testStrays leaves a process behind for Down to find.
func testStrays(t *testing.T, l *Lab) {
	_, err := l.Exec(t.Context(), "client", "sh", "-c",
		"setsid sleep 1000 >/dev/null 2>&1 & setsid sh -c 'kill -STOP $$' >/dev/null 2>&1 &")
	if err != nil {
		t.Fatal(err)
	}
	id, err := readNSID(nsPath(l.NS("client")))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "two strays", func() error {
		strays, err := processesIn([]nsID{id})
		if err == nil && len(strays) != 2 {
			err = fmt.Errorf("%d processes in the client's namespace", len(strays))
		}
		return err
	})
}
