package netsafe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/trigger"
)

// receiveBuffer is asked for, in bytes, so that a burst of events does not
// overflow at once. An overflow costs no more than one needless wake-up.
const receiveBuffer = 1 << 20

// Subscribe calls fire whenever something in one of the rtnetlink groups
// (unix.RTNLGRP_*) may have changed, until ctx ends. It fires once after every
// opening of its socket, so that nothing that changed before is missed, and on
// every overflow. A socket that fails is opened again, with backoff; only when
// the very first opening fails does Subscribe return an error.
//
// fire must not block.
func Subscribe(ctx context.Context, fire func(), groups ...uint) error {
	return Monitor(ctx, unix.NETLINK_ROUTE, func(syscall.NetlinkMessage) bool { return true }, fire, groups...)
}

// Monitor is Subscribe for any netlink protocol (unix.NETLINK_*); it fires
// only for messages that matter.
func Monitor(ctx context.Context, protocol int, matters func(syscall.NetlinkMessage) bool, fire func(), groups ...uint) error {
	f, err := join(protocol, groups)
	if err != nil {
		return err
	}
	backoff := trigger.Backoff{Min: 10 * time.Millisecond, Max: 5 * time.Second}
	for {
		if f != nil {
			fire()
			listen(ctx, f, matters, func() { backoff.Reset(); fire() })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff.Failed()):
		}
		f, _ = join(protocol, groups) // tried again until it works
	}
}

// join opens a socket that is a member of the groups.
func join(protocol int, groups []uint) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("opening netlink socket: %w", err)
	}
	// The forced size needs CAP_NET_ADMIN; without it the system's limit holds.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("binding netlink socket: %w", errors.Join(err, unix.Close(fd)))
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(g)); err != nil {
			return nil, fmt.Errorf("joining netlink group %d: %w", g, errors.Join(err, unix.Close(fd)))
		}
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// listen fires for what comes until the socket fails or ctx ends, and closes
// the socket.
func listen(ctx context.Context, f *os.File, matters func(syscall.NetlinkMessage) bool, fire func()) {
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer func() { stop(); _ = f.Close() }()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 1<<16)
	for ctx.Err() == nil {
		var n int
		var from unix.Sockaddr
		var recvErr error
		err := raw.Read(func(fd uintptr) bool {
			n, from, recvErr = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(recvErr, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return
		case errors.Is(recvErr, unix.ENOBUFS):
			fire() // events were lost; whoever wakes reads everything
		case errors.Is(recvErr, unix.EINTR):
		case recvErr != nil:
			return
		case fromKernel(from) && anyMatters(buf[:n], matters):
			fire()
		}
	}
}

// fromKernel tells the kernel's messages from those of other processes,
// netlink(7).
func fromKernel(from unix.Sockaddr) bool {
	a, ok := from.(*unix.SockaddrNetlink)
	return ok && a.Pid == 0
}

func anyMatters(b []byte, matters func(syscall.NetlinkMessage) bool) bool {
	msgs, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return true // rather once too often
	}
	for _, m := range msgs {
		if matters(m) {
			return true
		}
	}
	return false
}
