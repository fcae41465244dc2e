package session

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/wire"
)

// Phase is a state of RFC 4271's state machine, by the names of kube-vip's
// metric.
type Phase string

// Phases. A session that never listens knows no Active.
const (
	Idle        Phase = "SESSION_STATE_IDLE"
	Connect     Phase = "SESSION_STATE_CONNECT"
	OpenSent    Phase = "SESSION_STATE_OPENSENT"
	OpenConfirm Phase = "SESSION_STATE_OPENCONFIRM"
	Established Phase = "SESSION_STATE_ESTABLISHED"
)

// Phases returns all names of kube-vip's metric.
func Phases() []Phase {
	return []Phase{"SESSION_STATE_UNSPECIFIED", Idle, Connect, "SESSION_STATE_ACTIVE", OpenSent, OpenConfirm, Established}
}

// State is how a session stands.
type State struct {
	Phase Phase
	Since time.Time
	// Restarting: the peer may still have paths of an earlier process.
	Restarting bool
	// Problem is why the last attempt failed or the last session ended, ""
	// while one is up.
	Problem string
	// Address is the peer's as dialled.
	Address netip.AddrPort
	// PeerAS and Hold are as agreed on, RestartSeconds the time for which the
	// peer keeps paths, 0 for not at all.
	PeerAS         uint32
	Hold           time.Duration
	RestartSeconds uint16
	// Missing says by family why it is not announced although it is
	// configured.
	Missing map[wire.Family]string
	// Sent is what the peer was told; it is not changed afterwards.
	Sent plan.Sent
	// Sessions counts how often one came up, Ignored the UPDATE messages of
	// the peer, which nobody looked into.
	Sessions, Ignored uint64
	// BFD is how the session of BFD stands, "" for none; BFDProblem why there
	// is none although it is asked for.
	BFD, BFDProblem string
	// Lost counts the sessions that ended against our will.
	Lost uint64
}

func (st *State) enter(p Phase) { st.Phase, st.Since = p, time.Now() }

// end takes in the end of an attempt or session.
func (st *State) end(err error) {
	if st.Phase == Established && err != nil {
		st.Lost++
	}
	st.enter(Idle)
	st.Sent, st.Missing, st.RestartSeconds, st.BFDProblem = nil, nil, 0, ""
	if st.Problem = ""; err != nil {
		st.Problem = err.Error()
	}
}
