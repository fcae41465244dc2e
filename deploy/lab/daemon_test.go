package lab

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/vipod/vipod/shared/ownership"
)

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
	if err := l.AwaitDaemons(t.Context(), node, name); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("awaiting a daemon that was killed: %v, want an error with the end of its log", err)
	}
	if err := l.StartDaemon(t.Context(), node, "nosuchd"); err == nil {
		t.Error("starting a daemon that does not exist gives no error")
	}
}

// testAsk asks a daemon's socket, which the test serves in its place.
func testAsk(t *testing.T, l *Lab) {
	listener, err := net.Listen("unix", ownership.Socket(l.StateDir("n3"), "vipd"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.Error(w, "not that", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "fine")
	})}
	go server.Serve(listener)
	defer server.Close()
	if got, err := l.Ask(t.Context(), "n3", "vipd", "/readyz"); err != nil || string(got) != "fine" {
		t.Errorf("answer %q, %v", got, err)
	}
	if _, err := l.Ask(t.Context(), "n3", "vipd", "/x"); err == nil || !strings.Contains(err.Error(), "not that") {
		t.Errorf("error %v, want what the daemon says", err)
	}
}

func testResetState(t *testing.T, l *Lab) {
	dir := ownership.VIPs(l.StateDir("n3"), ownership.Elector)
	if err := os.WriteFile(dir+"/default.web.json", nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := l.StartDaemon(t.Context(), "n3", "elector"); err != nil {
		t.Fatal(err)
	}
	if err := l.ResetState("n3"); err == nil {
		t.Error("emptying the state directory under a daemon gives no error")
	}
	if err := l.KillNode(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	if err := l.ResetState("n3"); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("after emptying: %v, %v", files, err)
	}
}
