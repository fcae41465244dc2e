// Package secret finds the passwords of peers. They come from files, one per
// peer, in a directory that is a Secret's mount on a cluster; and, for who
// comes from kube-vip, from the text form of peers in the environment. They
// are in no document, log, status or metric.
package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vipod/vipod/shared/bgppeer"
	"github.com/vipod/vipod/shared/schema"
)

// Source is where passwords come from.
type Source struct {
	// Dir holds a file for each peer, called by its name or its address, or
	// "default" for every peer without one.
	Dir string
	// Getenv is os.Getenv; bgp_peers, bgp_peeraddress and bgp_peerpass are
	// read.
	Getenv func(string) string
}

const (
	// maxSize is the longest password that the kernel takes, in bytes.
	maxSize     = 80
	defaultFile = "default"
)

// ErrNone is a peer of which there is no password.
var ErrNone = errors.New("there is no password for it")

// Of returns the password of a peer. An error does not repeat it.
func (s Source) Of(p *schema.BGPPeer) (string, error) {
	names := []string{p.Name}
	if p.Address.IsValid() {
		names = append(names, p.Address.String())
	}
	for _, name := range append(names, defaultFile) {
		password, err := s.file(name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return password, err
		}
	}
	if password := s.fromEnvironment(p); password != "" {
		return password, check(password)
	}
	return "", ErrNone
}

// file reads a password as it is, but for one line break at its end.
func (s Source) file(name string) (string, error) {
	if s.Dir == "" {
		return "", fs.ErrNotExist
	}
	f, err := os.Open(filepath.Join(s.Dir, name))
	if err != nil {
		return "", fmt.Errorf("reading a password: %w", err)
	}
	defer f.Close()
	buf := make([]byte, maxSize+3)
	n, err := f.Read(buf)
	if err != nil {
		return "", fmt.Errorf("reading password %s: %w", f.Name(), err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(buf[:n]), "\n"), "\r")
	return password, check(password)
}

func check(password string) error {
	if password == "" || len(password) > maxSize {
		return fmt.Errorf("a password has %d bytes: want 1 to %d", len(password), maxSize)
	}
	return nil
}

// fromEnvironment looks into kube-vip's settings. Their errors are elector's
// to tell.
func (s Source) fromEnvironment(p *schema.BGPPeer) string {
	peers, err := bgppeer.ParseList(s.Getenv("bgp_peers"))
	if err == nil {
		for _, q := range peers {
			if q.Name() == p.Name || q.Address.IsValid() && q.Address == p.Address {
				return q.Password
			}
		}
	}
	if p.Address.IsValid() && s.Getenv("bgp_peeraddress") == p.Address.String() {
		return s.Getenv("bgp_peerpass")
	}
	return ""
}
