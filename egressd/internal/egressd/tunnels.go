package egressd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/reconcile"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/netsafe"
)

// tunnelTasks wake the loop for what is about tunnels.
func (d *Daemon) tunnelTasks(env *daemon.Env, r *reconcile.Reconciler) []daemon.Task {
	tasks := []daemon.Task{daemon.Follow("watch of tunnels", r.Changed.Fire, watchLinks)}
	if dir := filepath.Dir(d.tunnels); isDir(dir) {
		tasks = append(tasks, daemon.Watch(env.Log, "watch of the file of tunnels", r.Changed.Fire, dir))
	}
	return tasks
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// watchLinks fires when a link of WireGuard comes, goes or changes.
func watchLinks(ctx context.Context, fire func()) error {
	ours := func(m syscall.NetlinkMessage) bool { return bytes.Contains(m.Data, []byte(tunnel.Kind)) }
	if err := netsafe.Monitor(ctx, unix.NETLINK_ROUTE, ours, fire, unix.RTNLGRP_LINK); err != nil {
		return fmt.Errorf("watching links: %w", err)
	}
	return nil
}
