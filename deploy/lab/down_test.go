package lab

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/statetest"
)

// TestE2ETwoLabs runs two labs of the same addresses side by side.
func TestE2ETwoLabs(t *testing.T) {
	dir := binDir(t)
	first := upForTest(t, Options{Name: testName("b"), BinDir: dir, Nodes: 1})
	second := upForTest(t, Options{Name: testName("c"), BinDir: dir, Nodes: 2, Manifests: []string{"../manifests/rbac.yaml"}})
	for l, pod := range map[*Lab]string{first: "p1", second: "p2"} {
		service, err := l.CreateService(t.Context(), ServiceSpec{Name: "web", Pods: []string{pod}})
		if err != nil {
			t.Fatal(err)
		}
		node, err := NodeAddrs("n1")
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(service.Spec.Ports[0].NodePort)
		wantAnswer(t, l, "client", netip.AddrPortFrom(node.V6, port), pod)
	}
	if err := first.Down(); err != nil {
		t.Fatal(err)
	}
	wantAPI(t, second, "n2", true)
}

// TestE2EFailedUp lets Up fail at different points; nothing may be left.
func TestE2EFailedUp(t *testing.T) {
	for _, c := range []struct {
		name, cluster, want string
		manifests           []string
	}{
		{name: "etcd ends", cluster: "#!/bin/sh\necho no etcd; exit 1\n", want: "no etcd"},
		{name: "not executable", cluster: "not a program\n", want: "cluster"},
		{
			name:    "API server ends",
			cluster: "#!/bin/sh\nif [ $1 = etcd ]; then exec REAL \"$@\"; fi\necho no API server; exit 1\n",
			want:    "no API server",
		},
		{
			name:    "kube-proxy ends",
			cluster: "#!/bin/sh\nif [ $1 != kube-proxy ]; then exec REAL \"$@\"; fi\necho no kube-proxy; exit 1\n",
			want:    "no kube-proxy",
		},
		{name: "manifest missing", want: "nosuch.yaml", manifests: []string{"/nosuch.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := Options{Name: testName("d"), BinDir: binDir(t), Manifests: c.manifests}
			if c.cluster != "" {
				replaceProgram(t, filepath.Join(opts.BinDir, "cluster"), c.cluster)
			}
			before := machine(t, opts.Name)
			_, err := Up(t.Context(), opts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Up: %v, want an error with %q", err, c.want)
			}
			wantMachine(t, opts.Name, before)
		})
	}
}

// replaceProgram puts a script in a program's place; in it, REAL stands for
// the program.
func replaceProgram(t *testing.T, path, script string) {
	t.Helper()
	real, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(script, "REAL", real)), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMissingProgram(t *testing.T) {
	before := machine(t, testName("e"))
	dir := t.TempDir()
	_, err := Up(t.Context(), Options{Name: testName("e"), BinDir: dir})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "cluster")) {
		t.Errorf("Up: %v, want an error naming the program", err)
	}
	wantMachine(t, testName("e"), before)
}

// TestE2EInterruptedUp ends Up's context at different moments.
func TestE2EInterruptedUp(t *testing.T) {
	dir := binDir(t)
	for _, after := range []time.Duration{
		0, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, time.Second, 3 * time.Second,
	} {
		t.Run(after.String(), func(t *testing.T) {
			before := machine(t, testName("f"))
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			l, err := Up(ctx, Options{Name: testName("f"), BinDir: dir})
			if err == nil {
				t.Log("was faster")
				err = errors.Join(l.Down(), context.DeadlineExceeded)
			}
			if ctx.Err() == nil {
				t.Errorf("Up: %v, want it to fail because of its context", err)
			}
			wantMachine(t, testName("f"), before)
		})
	}
}

// TestE2EDownHalfMade removes what an Up that was killed has left, and what is
// not there at all.
func TestE2EDownHalfMade(t *testing.T) {
	dir := binDir(t)
	before := machine(t, testName("g"))
	l := &Lab{name: testName("g"), opts: Options{Name: testName("g"), BinDir: dir, Nodes: 2}}
	if err := os.MkdirAll(l.path(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.makeDirs(), l.makeCredentials(), l.makeLAN(t.Context())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Down(testName("g")); err != nil {
			t.Fatal(err)
		}
	}
	wantMachine(t, testName("g"), before)
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "a-b", "../x", "thirteenchars", "A", "a/b", "ä"} {
		if err := Down(name); err == nil {
			t.Errorf("Down(%q) gives no error", name)
		}
		if _, err := Up(t.Context(), Options{Name: name}); err == nil {
			t.Errorf("Up(%q) gives no error", name)
		}
	}
	for _, nodes := range []int{-1, MaxNodes + 1} {
		if _, err := Up(t.Context(), Options{Name: "a", Nodes: nodes}); err == nil {
			t.Errorf("Up with %d nodes gives no error", nodes)
		}
	}
}

// TestNetnsEnter sees that a thread that was in a namespace is not used again.
func TestNetnsEnter(t *testing.T) {
	statetest.Root(t)
	own, err := readNSID("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	ns := nsName(testName("h"), "x")
	if err := addNamespace(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Down(testName("h")); err != nil {
			t.Error(err)
		}
	})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			err := enter(ns, func() error {
				id, err := readNSID("/proc/thread-self/ns/net")
				if err == nil && id == own {
					err = errors.New("still in the machine's namespace")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if id, err := readNSID("/proc/thread-self/ns/net"); err != nil || id != own {
				t.Errorf("outside: namespace %v, %v; want %v", id, err, own)
			}
		})
	}
	group.Wait()
	if id, err := readNSID("/proc/self/ns/net"); err != nil || id != own {
		t.Errorf("main thread: namespace %v, %v; want %v", id, err, own)
	}
}
