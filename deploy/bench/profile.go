package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/vipod/vipod/deploy/bench/result"
	"github.com/vipod/vipod/deploy/probe"
)

// profileSeconds is how long a profile is taken.
const profileSeconds = 15

// profile takes processor profiles of the first node's daemons from now on,
// where that is asked for; the function that is returned awaits their end.
func (m *measuring) profile(what string) (wait func()) {
	var running sync.WaitGroup
	if m.profiles == "" || m.sys.name() != result.Subject {
		return running.Wait
	}
	lab := m.world.Lab
	for _, name := range m.sys.programs() {
		running.Go(func() {
			path := filepath.Join(m.profiles, fmt.Sprintf("%s-%s.pprof", what, name))
			data, err := lab.Ask(context.Background(), "n1", name, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds))
			if err == nil {
				err = os.MkdirAll(m.profiles, 0o755)
			}
			if err == nil {
				err = os.WriteFile(path, data, 0o644)
			}
			if err != nil {
				m.say("  no profile of %s: %v", name, err)
			}
		})
	}
	return running.Wait
}

// detail keeps the times of each address of a batch, in a file that is not
// committed.
func (m *measuring) detail(what string, b *batch, seen map[netip.Addr]probe.Swept) error {
	dir := filepath.Join(m.root, ".cache", "bench", m.sys.name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keeping details: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, what+".csv"))
	if err != nil {
		return fmt.Errorf("keeping details: %w", err)
	}
	defer file.Close()
	c := csv.NewWriter(file)
	_ = c.Write([]string{"address", "created_us", "announced_us", "answered_us", "mac"}) // the error stays until Flush
	for i, addr := range b.addrs {
		v := seen[addr]
		_ = c.Write([]string{
			addr.String(), strconv.FormatInt(b.made[i].UnixMicro(), 10), strconv.FormatInt(v.Announced.UnixMicro(), 10),
			strconv.FormatInt(v.Answered.UnixMicro(), 10), v.MAC.String(),
		})
	}
	c.Flush()
	return c.Error()
}
