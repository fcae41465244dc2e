package kube

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

func TestRefusedTokenIsReadAnew(t *testing.T) {
	s, _ := newServer(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	valid := "first"
	s.answer = func(r *http.Request) int {
		if r.Header.Get("Authorization") != "Bearer "+valid {
			return http.StatusUnauthorized
		}
		return 0
	}
	write(valid)
	c, err := newClient(slog.New(slog.DiscardHandler), &rest.Config{Host: s.http.URL, BearerTokenFile: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error { _, err := c.ReadLease(t.Context(), "kube-system", testIdentity); return err }
	if err := read(); err != nil {
		t.Fatal(err)
	}
	valid = "second"
	if err := read(); err == nil {
		t.Error("no error about a token that was revoked")
	}
	write(valid)
	if err := read(); err != nil {
		t.Errorf("after a new token was written: %v", err)
	}
}
