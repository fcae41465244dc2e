package netsafe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ChangeKind is what a Change does.
type ChangeKind int

// Kinds of Change.
const (
	// Add fails for an address that is there.
	Add ChangeKind = iota
	// Replace adds or updates.
	Replace
	// Delete removes.
	Delete
)

// Change is a change of one address.
type Change struct {
	Kind    ChangeKind
	Address Address
}

// window is how many changes are sent before their answers are read: more
// would overrun the receive buffer of the socket.
const window = 64

// ChangeAddresses makes the changes in order, many per round trip, and
// returns an error or nil for each. A change is tried whatever became of
// those before it.
func ChangeAddresses(changes []Change) []error { return changeAll(changes) }

// changer is a change of one object.
type changer interface{ message() *nl.NetlinkRequest }

func changeAll[C changer](changes []C) []error {
	errs := make([]error, len(changes))
	sock, err := openRoute()
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer sock.close()
	for from := 0; from < len(changes); from += window {
		to := min(from+window, len(changes))
		requests := make([]*nl.NetlinkRequest, 0, window)
		for _, c := range changes[from:to] {
			requests = append(requests, c.message())
		}
		sock.exchange(requests, errs[from:to])
	}
	return errs
}

// message encodes the change as RTM_NEWADDR or RTM_DELADDR, rtnetlink(7).
func (c Change) message() *nl.NetlinkRequest {
	a := c.Address
	kind, flags := unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE
	switch c.Kind {
	case Add:
		flags |= unix.NLM_F_EXCL
	case Replace:
		flags |= unix.NLM_F_REPLACE
	case Delete:
		kind, flags = unix.RTM_DELADDR, unix.NLM_F_ACK
	}
	family := unix.AF_INET6
	if a.Prefix.Addr().Is4() {
		family = unix.AF_INET
	}
	req := nl.NewNetlinkRequest(kind, flags)
	head := nl.NewIfAddrmsg(family)
	head.Index = uint32(a.LinkIndex)
	head.Prefixlen = uint8(a.Prefix.Bits())
	head.Scope = a.Scope
	head.IfAddrmsg.Flags = uint8(a.Flags)
	req.AddData(head)
	ip := a.Prefix.Addr().AsSlice()
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, ip))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, ip))
	if c.Kind == Delete {
		return req
	}
	req.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(a.Flags)))
	req.AddData(nl.NewRtAttr(ifaProto, nl.Uint8Attr(a.Protocol)))
	cache := append(nl.Uint32Attr(a.Preferred), nl.Uint32Attr(a.Valid)...)
	req.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, append(cache, make([]byte, 8)...))) // cstamp and tstamp are the kernel's
	return req
}

// routeSocket is a NETLINK_ROUTE socket on which several requests are under
// way at a time.
type routeSocket struct{ fd int }

func openRoute() (*routeSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening netlink socket: %w", err)
	}
	// The answers carry no copy of the request, which keeps them small; a
	// deaf kernel must not hang the caller.
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}),
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	if err != nil {
		return nil, fmt.Errorf("preparing netlink socket: %w", errors.Join(err, unix.Close(fd)))
	}
	return &routeSocket{fd: fd}, nil
}

func (s *routeSocket) close() { _ = unix.Close(s.fd) } // nothing is buffered in it

// exchange sends the changes and reads an answer for each. A failure of the
// socket is the error of every change that has no answer yet.
func (s *routeSocket) exchange(requests []*nl.NetlinkRequest, errs []error) {
	var out []byte
	waiting := make(map[uint32]int, len(requests))
	for i, req := range requests {
		waiting[req.Seq] = i
		out = append(out, req.Serialize()...)
	}
	err := unix.Sendto(s.fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for err == nil && len(waiting) > 0 {
		err = s.receive(waiting, errs)
	}
	for _, i := range waiting {
		errs[i] = fmt.Errorf("talking to netlink: %w", err)
	}
}

func (s *routeSocket) receive(waiting map[uint32]int, errs []error) error {
	var buf [1 << 16]byte
	n, _, err := unix.Recvfrom(s.fd, buf[:], 0)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return err
	}
	msgs, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil {
		return err
	}
	for _, m := range msgs {
		i, ok := waiting[m.Header.Seq]
		if !ok || m.Header.Type != unix.NLMSG_ERROR || len(m.Data) < 4 {
			continue
		}
		delete(waiting, m.Header.Seq)
		if errno := -int32(nl.NativeEndian().Uint32(m.Data)); errno != 0 {
			errs[i] = syscall.Errno(errno)
		}
	}
	return nil
}
