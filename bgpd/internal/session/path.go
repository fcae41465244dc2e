package session

import (
	"context"
	"net/netip"
	"time"

	"github.com/vipod/vipod/bgpd/internal/bfd"
)

// watchPath runs BFD beside the session until end is called, and says when the
// peer cannot be reached any more. Where it cannot run, the session goes on
// without it.
func (t *talk) watchPath(ctx context.Context) (lost <-chan bfd.Diag, end func()) {
	if t.cfg.BFD == nil {
		return nil, func() {}
	}
	s, leave, err := t.hub.Open(bfd.Config{
		TX: milliseconds(t.cfg.BFD.TXMillis), RX: milliseconds(t.cfg.BFD.RXMillis), Multiplier: t.cfg.BFD.Multiplier,
	}, bfd.Path{
		Local: addressOf(t.conn.LocalAddr().String()), Peer: addressOf(t.conn.RemoteAddr().String()), Interface: t.cfg.SourceInterface,
	}, t.notify)
	if err != nil {
		t.log.Error("no BFD", "err", err)
		t.update(func(st *State) { st.BFDProblem = err.Error() })
		return nil, func() {}
	}
	t.setBFD(s)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return s.Lost(), func() {
		cancel()
		<-done
		leave()
		t.setBFD(nil)
	}
}

func (s *Session) setBFD(to *bfd.Session) {
	s.mu.Lock()
	s.bfd = to
	s.mu.Unlock()
}

func milliseconds(n uint16) time.Duration { return time.Duration(n) * time.Millisecond }

// addressOf returns the address of an end of a connection.
func addressOf(text string) netip.Addr {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap()
}
