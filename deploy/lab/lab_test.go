package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vipod/vipod/deploy/probe"
)

// TestE2ELab goes through what a lab offers, on one lab.
func TestE2ELab(t *testing.T) {
	l := upForTest(t, Options{
		Name: testName("a"), BinDir: binDir(t), Env: []string{"vip_arp=true", "lab_env=option"},
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
		{"Ask", testAsk},
		{"ResetState", testResetState},
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
	if vip.Is6() {
		// Otherwise the node would use it as its own source address.
		add += " preferred_lft 0"
	}
	if err := ipBatch(t.Context(), l.NS("n2"), add); err != nil {
		t.Fatal(err)
	}
	eventually(t, "asking the virtual IP", func() error {
		_, err := l.Get(t.Context(), "client", netip.AddrPortFrom(vip, 80))
		return err
	})
	capture, probers := watchFromClient(t, l, vip)
	defer capture.Close()
	time.Sleep(300 * time.Millisecond)
	if err := ipBatch(t.Context(), l.NS("n2"), "addr del "+vip.String()+"/"+strconv.Itoa(network.Bits())+" dev eth0"); err != nil {
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
	for name, prober := range probers {
		result := prober.Stop()
		t.Logf("%s: sent %d, received %d, gap %v, %v", name, result.Sent, result.Received, result.Gap, result.Answerers)
		// The old node still translates a flow that it knows, and sends it
		// on without having the address: the datagrams see a shorter gap.
		if name == "ping" && result.Gap < 150*time.Millisecond || result.Gap > 2*time.Second {
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
	if err := ipBatch(t.Context(), l.NS("n3"), "addr del "+vip.String()+"/"+strconv.Itoa(network.Bits())+" dev eth0"); err != nil {
		t.Fatal(err)
	}
}

// watchFromClient starts a capture, and probers by their names.
func watchFromClient(t *testing.T, l *Lab, vip netip.Addr) (capture *probe.Capture, probers map[string]*probe.Prober) {
	t.Helper()
	probers = map[string]*probe.Prober{}
	err := l.InNS("client", func() (err error) {
		if capture, err = probe.Listen("eth0"); err != nil {
			return err
		}
		for name, port := range map[string]uint16{"ping": 0, "udp": UDPPort} {
			probers[name], err = probe.Start(probe.Options{Iface: "eth0", Target: vip, UDPPort: port})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return capture, probers
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
