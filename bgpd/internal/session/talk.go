package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/wire"
)

const (
	// openTimeout is how long the peer may take to answer an OPEN (RFC 4271
	// suggests a large value, 4 minutes; a router that needs more than this
	// is not well).
	openTimeout = 10 * time.Second
	// writeTimeout is how long the peer may refuse to take anything.
	writeTimeout = 10 * time.Second
	// closeWait is how long the peer may take to close after a Cease, so that
	// the withdrawals before it are not lost with the connection.
	closeWait = 500 * time.Millisecond
)

// talk is one connection.
type talk struct {
	*Session
	conn   *net.TCPConn
	peer   *wire.Open
	writer wire.Writer
	hops   map[wire.Family]hop
	hold   time.Duration
	sent   plan.Sent
}

// open exchanges OPEN and the first KEEPALIVE.
func (t *talk) open() error {
	ours := t.offer()
	t.update(func(st *State) { st.enter(OpenSent) })
	if err := t.write(ours.Message()); err != nil {
		return err
	}
	buf := make([]byte, wire.MaxLen)
	body, err := t.expect(buf, wire.TypeOpen)
	if err != nil {
		return err
	}
	theirs, err := wire.ParseOpen(body)
	if err != nil {
		return err
	}
	if err := t.accept(theirs); err != nil {
		return err
	}
	t.update(func(st *State) { st.enter(OpenConfirm) })
	if err := t.write(wire.Keepalive()); err != nil {
		return err
	}
	if _, err := t.expect(buf, wire.TypeKeepalive); err != nil {
		return err
	}
	t.agree(ours, theirs)
	return nil
}

// expect reads one message, which must be of the given type.
func (t *talk) expect(buf []byte, want wire.Type) ([]byte, error) {
	if err := t.conn.SetReadDeadline(time.Now().Add(openTimeout)); err != nil {
		return nil, err
	}
	kind, body, err := wire.Read(t.conn, buf)
	switch {
	case err != nil:
		return nil, t.lost(err)
	case kind == wire.TypeNotification:
		return nil, wire.ParseNotification(body)
	case kind != want:
		return nil, &wire.ErrMessage{Code: wire.CodeFSM, Text: fmt.Sprintf("a message of type %d came in place of %d", kind, want)}
	}
	return body, nil
}

// offer is this side's OPEN.
func (t *talk) offer() *wire.Open {
	o := &wire.Open{
		AS: t.cfg.LocalAS, Hold: t.cfg.HoldSeconds, RouterID: t.cfg.RouterID, Families: t.cfg.families(),
		FourOctetAS: true, Refresh: true, IPv4OverIPv6: t.cfg.IPv4 && t.overIPv6(),
	}
	if t.cfg.RestartSeconds > 0 {
		// Packets are forwarded by the kernel, whatever becomes of bgpd.
		o.Restart = &wire.Restart{Restarted: t.State().Restarting, Seconds: t.cfg.RestartSeconds, Families: o.Families}
	}
	return o
}

// accept says whether the peer is the one that was configured.
func (t *talk) accept(o *wire.Open) error {
	if t.cfg.AS != 0 && o.AS != t.cfg.AS {
		return &wire.ErrMessage{Code: wire.CodeOpen, Subcode: 2, Text: fmt.Sprintf("the peer is of AS %d, want %d", o.AS, t.cfg.AS)}
	}
	if o.RouterID == t.cfg.RouterID {
		return &wire.ErrMessage{Code: wire.CodeOpen, Subcode: 3, Text: fmt.Sprintf("the peer has this node's BGP identifier, %s", o.RouterID)}
	}
	return nil
}

// agree settles what both sides can do.
func (t *talk) agree(ours, theirs *wire.Open) {
	t.peer, t.hops = theirs, map[wire.Family]hop{}
	t.hold = time.Duration(min(ours.Hold, theirs.Hold)) * time.Second
	t.writer = wire.Writer{FourOctetAS: theirs.FourOctetAS}
	missing := map[wire.Family]string{}
	for _, f := range []wire.Family{wire.IPv4, wire.IPv6} {
		if !ours.Families[f] {
			continue
		}
		if !theirs.Families[f] {
			missing[f] = "the peer does not take " + f.String()
			continue
		}
		h, err := t.nextHop(f)
		if err != nil {
			missing[f] = err.Error()
			continue
		}
		t.hops[f] = h
	}
	restart := uint16(0)
	if ours.Restart != nil && theirs.Restart != nil {
		restart = ours.Restart.Seconds
	}
	t.update(func(st *State) {
		st.enter(Established)
		st.Problem, st.PeerAS, st.Hold, st.RestartSeconds, st.Missing = "", theirs.AS, t.hold, restart, missing
		st.Sessions++
		st.Restarting = false
	})
	t.log.Info("session established", "as", theirs.AS, "hold", t.hold, "restart", restart)
}

// keep keeps the peer up to date until the session ends.
func (t *talk) keep(ctx context.Context) error {
	failed, refresh := make(chan error, 1), make(chan wire.Family, 2)
	go func() { failed <- t.listen(refresh) }()
	var tick <-chan time.Time
	if every := t.keepalive(); every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	lost, end := t.watchPath(ctx)
	defer end()
	if err := t.first(); err != nil {
		return err
	}
	var asked refreshes
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case subcode := <-t.stop:
			return t.end(subcode, failed)
		case err = <-failed:
		case conn := <-t.incoming:
			err = t.collide(conn)
		case why := <-lost:
			err = &wire.ErrMessage{Code: wire.CodeCease, Subcode: wire.CeaseBFDDown, Text: "BFD: " + why.String()}
		case f := <-refresh:
			asked.add(f)
		case <-asked.due:
			err = t.again(asked.take())
		case <-t.changed.C():
			err = t.sync()
		case <-tick:
			err = t.write(wire.Keepalive())
		}
		if err != nil {
			return err
		}
	}
}

// keepalive is the time between two KEEPALIVEs, 0 for none.
func (t *talk) keepalive() time.Duration {
	every := t.hold / 3
	if own := time.Duration(t.cfg.KeepaliveSeconds) * time.Second; own > 0 {
		every = min(every, own)
	}
	return every
}

// listen reads until the connection ends. What the peer announces is read and
// dropped.
func (t *talk) listen(refresh chan<- wire.Family) error {
	buf := make([]byte, wire.MaxLen)
	for {
		until := time.Time{}
		if t.hold > 0 {
			until = time.Now().Add(t.hold)
		}
		if err := t.conn.SetReadDeadline(until); err != nil {
			return err
		}
		kind, body, err := wire.Read(t.conn, buf)
		if err != nil {
			return t.lost(err)
		}
		switch kind {
		case wire.TypeNotification:
			return wire.ParseNotification(body)
		case wire.TypeOpen:
			return &wire.ErrMessage{Code: wire.CodeFSM, Text: "an OPEN came in an established session"}
		case wire.TypeUpdate:
			t.mu.Lock()
			t.state.Ignored++
			t.mu.Unlock()
		case wire.TypeRouteRefresh:
			if f, ok := wire.Refresh(body); ok {
				select {
				case refresh <- f:
				default: // one of each waits already
				}
			}
		}
	}
}

// lost says what the end of reading means.
func (t *talk) lost(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &wire.ErrMessage{Code: wire.CodeHold, Text: "the peer is silent"}
	}
	return fmt.Errorf("reading: %w", err)
}

// complain tells the peer why the session ends, where it is its fault.
func (t *talk) complain(err error) {
	var refused *wire.ErrMessage
	if errors.As(err, &refused) {
		_ = t.write(wire.Notification(refused.Code, refused.Subcode, refused.Data)) // the session ends in any case
	}
}

// end withdraws everything, says so and waits for the peer to have read it.
func (t *talk) end(subcode uint8, failed <-chan error) error {
	err := t.do(plan.Difference(nil, t.sent))
	if err == nil {
		err = t.write(wire.Notification(wire.CodeCease, subcode, nil))
	}
	if err == nil {
		err = t.conn.CloseWrite()
	}
	if err != nil {
		t.log.Warn("closing the session", "err", err)
		return errStopped
	}
	select {
	case <-failed:
	case <-time.After(closeWait):
	}
	t.log.Info("session closed", "reason", wire.Reason(wire.CodeCease, subcode))
	return errStopped
}

func (t *talk) write(messages ...[]byte) error {
	if len(messages) == 0 {
		return nil
	}
	if err := t.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	buffers := net.Buffers(messages)
	if _, err := buffers.WriteTo(t.conn); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
