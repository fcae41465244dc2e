package lab

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	sigKill = syscall.SIGKILL
	// apiTimeout is how long the API server may take to become ready; it
	// takes 5 to 8 s, and more when other things keep the processors busy.
	apiTimeout = 2 * time.Minute
)

// apiURL is the API server's own address.
func apiURL() string {
	return "https://" + netip.AddrPortFrom(APIAddrs().V4, APIPort).String()
}

// kubeconfig is what a client needs to reach an API server.
type kubeconfig struct {
	server string
	ca     []byte
	credential
	tokenFile string // instead of a credential
}

func (k kubeconfig) yaml() []byte {
	encode := base64.StdEncoding.EncodeToString
	user := fmt.Sprintf("tokenFile: %s", k.tokenFile)
	if k.tokenFile == "" {
		user = fmt.Sprintf("client-certificate-data: %s\n    client-key-data: %s", encode(k.cert), encode(k.key))
	}
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: lab
contexts:
- name: lab
  context: {cluster: lab, user: lab}
clusters:
- name: lab
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: lab
  user:
    %s
`, k.server, encode(k.ca), user)
}

// startControlPlane starts etcd and the API server and waits until it is
// ready.
func (l *Lab) startControlPlane(ctx context.Context) error {
	etcd, err := l.start(ctx, program{role: "cp", name: "etcd", argv: []string{
		l.bin("cluster"), "etcd", "--name=lab", "--data-dir=" + l.path("etcd"), "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=lab=http://127.0.0.1:2380",
		// The database lives no longer than the machine is up.
		"--unsafe-no-fsync=true",
		"--heartbeat-interval=50", "--election-timeout=250",
	}})
	if err != nil {
		return err
	}
	// The API server looks for etcd once a second: worth waiting for.
	if err := l.awaitPort(ctx, etcd, "127.0.0.1:2379"); err != nil {
		return err
	}
	if err := l.connect(); err != nil {
		return err
	}
	return l.StartAPI(ctx)
}

// StartAPI starts the API server and waits until it is ready.
func (l *Lab) StartAPI(ctx context.Context) error {
	pki := func(name string) string { return l.path("pki", name) }
	p, err := l.start(ctx, program{role: "cp", name: "kube-apiserver", argv: []string{
		l.bin("cluster"), "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=::", fmt.Sprintf("--secure-port=%d", APIPort),
		"--advertise-address=" + APIAddrs().V4.String(),
		"--service-cluster-ip-range=" + Services4.String() + "," + Services6.String(),
		"--authorization-mode=RBAC", "--allow-privileged=true", "--profiling=false",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("server.crt"), "--tls-private-key-file=" + pki("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("tokens.pub"),
		"--service-account-signing-key-file=" + pki("tokens.key"),
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return l.await(ctx, p, 25*time.Millisecond, func() error {
		return l.client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).Do(ctx).Error()
	})
}

// StopAPI kills the API server. etcd stays.
func (l *Lab) StopAPI(ctx context.Context) error {
	return l.stopProcess(ctx, "cp", "kube-apiserver", sigKill)
}

// PauseAPI makes the API server hang: connections stay, nothing answers.
func (l *Lab) PauseAPI() error { return l.signalProcess("cp", "kube-apiserver", unix.SIGSTOP) }

// ResumeAPI ends PauseAPI.
func (l *Lab) ResumeAPI() error { return l.signalProcess("cp", "kube-apiserver", unix.SIGCONT) }

func (l *Lab) signalProcess(role, name string, sig syscall.Signal) error {
	p, ok := l.process(role, name)
	if !ok || !p.Alive() {
		return fmt.Errorf("sending %v to %s of %s: it does not run", sig, name, role)
	}
	return p.signal(sig)
}

// StartRelay starts a node's own way to the API server, on APIPort of every
// address of the node. It stands for the API server that a control-plane
// node has.
func (l *Lab) StartRelay(ctx context.Context, node string) error {
	if err := l.checkNode(node); err != nil {
		return err
	}
	listen := fmt.Sprintf("[::]:%d", APIPort)
	p, err := l.start(ctx, program{role: node, name: "relay", argv: []string{
		l.bin("lab"), "relay", "--listen", listen,
		"--to", netip.AddrPortFrom(APIAddrs().V4, APIPort).String(),
	}})
	if err != nil {
		return err
	}
	return l.awaitPort(ctx, p, fmt.Sprintf("127.0.0.1:%d", APIPort))
}

// StopRelay is the death of a node's own API server.
func (l *Lab) StopRelay(ctx context.Context, node string) error {
	return l.stopProcess(ctx, node, "relay", sigKill)
}

// await tries until it succeeds, the process ends, or the context does.
func (l *Lab) await(ctx context.Context, p Process, every time.Duration, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if !p.Alive() {
			return fmt.Errorf("%s of %s ended: %s", p.Name, p.Role, p.logTail())
		}
		if ctxErr := pause(ctx, every); ctxErr != nil {
			return fmt.Errorf("waiting for %s of %s: %w (last: %w)", p.Name, p.Role, ctxErr, err)
		}
	}
}

// awaitPort waits until the process accepts TCP connections.
func (l *Lab) awaitPort(ctx context.Context, p Process, addr string) error {
	return l.await(ctx, p, 5*time.Millisecond, func() error {
		conn, err := l.Dial(ctx, p.Role, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Dial connects from within the role's namespace, to an address and port in
// digits.
func (l *Lab) Dial(ctx context.Context, role, network, addr string) (conn net.Conn, err error) {
	enterErr := l.InNS(role, func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return nil
	})
	if enterErr != nil {
		return nil, enterErr
	}
	return conn, err
}

// connect makes the client of the lab's administrator. Its connections are
// made in the API server's namespace: the machine has no route there.
func (l *Lab) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", l.path("pki", "admin.kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the administrator's kubeconfig: %w", err)
	}
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return l.Dial(ctx, "cp", network, addr)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the administrator's client: %w", err)
	}
	l.config, l.client = config, client
	return nil
}

// Client returns a client with all rights.
func (l *Lab) Client() kubernetes.Interface { return l.client }

// RESTConfig returns the configuration of Client, for other kinds of client.
func (l *Lab) RESTConfig() *rest.Config { return rest.CopyConfig(l.config) }
