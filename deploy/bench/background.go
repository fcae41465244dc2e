package main

import (
	"context"
	"time"

	"github.com/vipod/vipod/deploy/probe"
)

const (
	backgroundSize = 1000
	// backgroundLook is how long frames are counted: two rounds of all.
	backgroundLook = 2 * time.Minute
	// backgroundPart is the time of one value.
	backgroundPart = 10 * time.Second
)

// background counts announcements while nothing happens.
func background(ctx context.Context, m *measuring) error {
	b, err := m.fill(ctx, m.scaled(backgroundSize))
	if err != nil {
		return m.failed("", 0, err)
	}
	// The last burst of announcements has ended.
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	var capture *probe.Capture
	err = m.world.InNS(client, func() (err error) {
		capture, err = probe.Listen(iface)
		return err
	})
	if err != nil {
		return m.failed("", 0, err)
	}
	begin := time.Now()
	err = pause(ctx, backgroundLook)
	capture.Close()
	if err != nil {
		return err
	}
	parts := make([]int, backgroundLook/backgroundPart)
	for _, f := range capture.Frames() {
		if i := int(f.Time.Sub(begin) / backgroundPart); f.Unsolicited && i >= 0 && i < len(parts) {
			parts[i]++
		}
	}
	total := 0
	for i, n := range parts {
		total += n
		if err := m.record("", i+1, value{"announcements, 10 s", "frames/s", float64(n) / backgroundPart.Seconds()}); err != nil {
			return err
		}
	}
	err = m.record("", 1, value{"announcements", "frames/s", float64(total) / backgroundLook.Seconds()})
	if err != nil {
		return err
	}
	return m.empty(ctx, b)
}
