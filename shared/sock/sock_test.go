package sock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statetest"
)

// stranger is a uid that no daemon has.
const stranger = 65599

// newStateDir makes a state directory with elector's own, which anybody may
// enter, so that what is tested is the socket.
func newStateDir(t *testing.T) string {
	t.Helper()
	statetest.Root(t)
	dir, err := os.MkdirTemp("/tmp", "sock") // a socket's path is short, unix(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own := ownership.Dir(dir, ownership.Elector)
	for _, err := range []error{os.Mkdir(own, 0o755), os.Chown(own, ownership.UID(ownership.Elector), -1), os.Chmod(dir, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serve serves elector's socket, opened under the given uid, until the test
// ends.
func serve(t *testing.T, stateDir string, uid int, h http.HandlerFunc) {
	t.Helper()
	var l net.Listener
	statetest.As(t, uid, func() {
		var err error
		if l, err = sock.Listen(stateDir, ownership.Elector); err != nil {
			t.Error(err)
		}
	})
	if l == nil {
		t.FailNow()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sock.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, text)
	}
}

func TestNetnsClientGetsTheAnswer(t *testing.T) {
	dir := newStateDir(t)
	serve(t, dir, ownership.UID(ownership.Elector), answer("hello"))
	c := sock.NewClient(dir, ownership.Elector)
	for range 2 { // the second time over the same connection
		if body, err := c.Get(t.Context(), "/status"); err != nil || string(body) != "hello" {
			t.Errorf("answer %q, error %v", body, err)
		}
	}
	if _, err := c.Get(t.Context(), "/other"); err == nil || !strings.Contains(err.Error(), "404 Not Found: no such page") {
		t.Errorf("error %v, want the answer's status and text", err)
	}
}

func TestNetnsSocketIsForItsGroupOnly(t *testing.T) {
	dir := newStateDir(t)
	serve(t, dir, ownership.UID(ownership.Elector), answer(""))
	st, err := os.Lstat(ownership.Socket(dir, ownership.Elector))
	if err != nil || st.Mode() != os.ModeSocket|ownership.SocketMode {
		t.Errorf("mode %v, error %v, want %#o", st.Mode(), err, ownership.SocketMode)
	}
}

// ask connects under the given uid and returns what comes back; the file mode
// is opened first, so that only the credentials can refuse.
func ask(t *testing.T, stateDir string, uid int) (string, error) {
	t.Helper()
	path := ownership.Socket(stateDir, ownership.Elector)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	var c net.Conn
	statetest.As(t, uid, func() {
		var err error
		if c, err = net.Dial("unix", path); err != nil {
			t.Errorf("connecting: %v", err)
		}
	})
	if c == nil {
		t.FailNow()
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET /status HTTP/1.1\r\nHost: vipod\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	data, err := io.ReadAll(c)
	return string(data), err
}

func TestNetnsServerAnswersItsReadersOnly(t *testing.T) {
	dir := newStateDir(t)
	serve(t, dir, ownership.UID(ownership.Elector), answer("secret"))
	for _, test := range []struct {
		name    string
		uid     int
		allowed bool
	}{
		{"root", 0, true},
		{"itself", ownership.UID(ownership.Elector), true},
		{"reader", ownership.UID(ownership.Vipd), true},
		{"another reader", ownership.UID(ownership.Metricsd), true},
		{"stranger", stranger, false},
		{"nobody", 65534, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ask(t, dir, test.uid)
			if strings.Contains(got, "secret") != test.allowed {
				t.Errorf("answer %q, error %v, want an answer: %v", got, err, test.allowed)
			}
			if !test.allowed && got != "" {
				t.Errorf("a refused peer was told %q", got)
			}
		})
	}
}

func TestNetnsClientAsksTheRightServerOnly(t *testing.T) {
	for uid, allowed := range map[int]bool{
		ownership.UID(ownership.Elector): true,
		ownership.UID(ownership.Vipd):    false,
		0:                                false,
	} {
		t.Run(fmt.Sprint(uid), func(t *testing.T) {
			dir := newStateDir(t)
			if err := os.Chown(ownership.Dir(dir, ownership.Elector), uid, -1); err != nil {
				t.Fatal(err)
			}
			asked := false
			serve(t, dir, uid, func(http.ResponseWriter, *http.Request) { asked = true })
			_, err := sock.NewClient(dir, ownership.Elector).Get(t.Context(), "/status")
			if allowed && err != nil || !allowed && !errors.Is(err, sock.ErrPeer) {
				t.Errorf("error %v, want allowed: %v", err, allowed)
			}
			if asked != allowed {
				t.Errorf("the server was asked: %v, want %v", asked, allowed)
			}
		})
	}
}

func TestNetnsStaleSocketIsReplaced(t *testing.T) {
	dir := newStateDir(t)
	path := ownership.Socket(dir, ownership.Elector)
	statetest.As(t, ownership.UID(ownership.Elector), func() {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd)); err != nil {
			t.Error(err)
		}
	})
	serve(t, dir, ownership.UID(ownership.Elector), answer("new"))
	if body, err := sock.NewClient(dir, ownership.Elector).Get(t.Context(), "/status"); err != nil || string(body) != "new" {
		t.Errorf("answer %q, error %v", body, err)
	}
}

func TestNetnsSocketInUseIsAnError(t *testing.T) {
	dir := newStateDir(t)
	serve(t, dir, ownership.UID(ownership.Elector), answer("first"))
	if l, err := sock.Listen(dir, ownership.Elector); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("listener %v, error %v, want one about the other process", l, err)
	}
	if body, err := sock.NewClient(dir, ownership.Elector).Get(t.Context(), "/status"); err != nil || string(body) != "first" {
		t.Errorf("the first was disturbed: answer %q, error %v", body, err)
	}
}

func TestListenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if _, err := sock.Listen(dir, ownership.Elector); err == nil {
		t.Error("no directory: no error")
	}
	long := filepath.Join(dir, strings.Repeat("x", 108))
	if err := os.MkdirAll(ownership.Dir(long, ownership.Elector), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := sock.Listen(long, ownership.Elector); err == nil {
		t.Error("path over 108 bytes: no error")
	}
}

func TestNetnsAnswerOverTheLimitIsAnError(t *testing.T) {
	dir := newStateDir(t)
	size := sock.MaxAnswer
	serve(t, dir, ownership.UID(ownership.Elector), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	})
	c := sock.NewClient(dir, ownership.Elector)
	if body, err := c.Get(t.Context(), "/"); err != nil || len(body) != sock.MaxAnswer {
		t.Errorf("%d bytes, error %v, want the largest answer", len(body), err)
	}
	size++
	if body, err := c.Get(t.Context(), "/"); err == nil || body != nil {
		t.Errorf("%d bytes and no error for an answer over the limit", len(body))
	}
}

func TestNetnsServerBoundsWhatItIsSent(t *testing.T) {
	dir := newStateDir(t)
	read := make(chan error, 1)
	serve(t, dir, ownership.UID(ownership.Elector), func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	})
	for name, request := range map[string]string{
		"large head": "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: vipod\r\n\r\n",
		"large body": "POST / HTTP/1.1\r\nHost: vipod\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("unix", ownership.Socket(dir, ownership.Elector))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			go func() { _, _ = io.WriteString(c, request) }() // ends when the server hangs up
			status, err := io.ReadAll(io.LimitReader(c, 12))
			if name == "large head" {
				if string(status) != "HTTP/1.1 431" {
					t.Errorf("answer %q, error %v, want 431", status, err)
				}
				return
			}
			if err := <-read; err == nil {
				t.Error("the handler got the whole body")
			}
		})
	}
}

func TestNetnsClientGivesUpWithItsContext(t *testing.T) {
	dir := newStateDir(t)
	release := make(chan struct{})
	defer close(release)
	serve(t, dir, ownership.UID(ownership.Elector), func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := sock.NewClient(dir, ownership.Elector).Get(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want DeadlineExceeded", err)
	}
}

func TestNetnsClientFindsARestartedServer(t *testing.T) {
	dir := newStateDir(t)
	c := sock.NewClient(dir, ownership.Elector)
	for _, text := range []string{"first", "second"} {
		t.Run(text, func(t *testing.T) {
			serve(t, dir, ownership.UID(ownership.Elector), answer(text))
			if body, err := c.Get(t.Context(), "/status"); err != nil || string(body) != text {
				t.Errorf("answer %q, error %v", body, err)
			}
		})
		if _, err := c.Get(t.Context(), "/status"); err == nil {
			t.Error("an answer from a server that ended")
		}
	}
}

func TestServeSaysWhenItsListenerFails(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sock.Serve(t.Context(), l, answer("")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}
