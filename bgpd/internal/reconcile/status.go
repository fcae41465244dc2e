package reconcile

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/session"
	"github.com/vipod/vipod/bgpd/internal/wire"
	"github.com/vipod/vipod/shared/schema"
)

// Report is the answer to /status.
type Report struct {
	// Node is elector's document that the daemon acts on.
	Node     schema.Observed `json:"node"`
	AS       uint32          `json:"as,omitempty"`
	RouterID netip.Addr      `json:"routerID,omitzero"`
	// Problem is what could not be read, if anything.
	Problem string       `json:"problem,omitempty"`
	Peers   []PeerReport `json:"peers"`
	Paths   []PathReport `json:"paths"`
}

// PeerReport is one peer.
type PeerReport struct {
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address,omitzero"`
	AS      uint32         `json:"as,omitempty"`
	Phase   session.Phase  `json:"phase"`
	Since   time.Time      `json:"since"`
	Problem string         `json:"problem,omitempty"`
	// HoldSeconds and RestartSeconds are as agreed on.
	HoldSeconds    float64 `json:"holdSeconds,omitempty"`
	RestartSeconds uint16  `json:"restartSeconds,omitempty"`
	Paths          int     `json:"paths"`
	Sessions       uint64  `json:"sessions"`
	Lost           uint64  `json:"lost"`
	// BFD is how that session stands, "" for none.
	BFD string `json:"bfd,omitempty"`
	// Ignored counts UPDATE messages of the peer.
	Ignored uint64 `json:"ignoredUpdates"`
	// Missing are families that are configured and not announced.
	Missing map[wire.Family]string `json:"missing,omitempty"`
}

// PathReport is one path.
type PathReport struct {
	Prefix  netip.Prefix `json:"prefix"`
	Leaving bool         `json:"leaving,omitempty"`
	Peers   []string     `json:"peers"` // that were told
}

// snapshot is what a Report is made of when somebody asks for it: most passes
// are of no interest to anybody, and there may be thousands of paths.
type snapshot struct {
	report Report // without paths
	paths  []plan.Path
	states map[string]session.State
}

func (s *snapshot) complete() Report {
	out := s.report
	out.Paths = make([]PathReport, 0, len(s.paths))
	names := slices.Sorted(maps.Keys(s.states))
	for _, p := range s.paths {
		out.Paths = append(out.Paths, PathReport{Prefix: p.Prefix, Leaving: p.Leaving, Peers: toldTo(p.Prefix, names, s.states)})
	}
	return out
}

func (r *reporter) snapshot(states map[string]session.State) *snapshot {
	out := Report{Node: r.docs.Seen(), Problem: r.docs.Problems.Condition().Message, Peers: []PeerReport{}}
	if b := r.docs.Settings().BGP; b != nil {
		out.AS, out.RouterID = b.AS, b.RouterID
	}
	for _, name := range r.names() {
		st := states[name]
		out.Peers = append(out.Peers, PeerReport{
			Name: name, Address: st.Address, AS: st.PeerAS, Phase: phase(st), Since: st.Since, Problem: r.problem(name, st),
			HoldSeconds: st.Hold.Seconds(), RestartSeconds: st.RestartSeconds, Paths: len(st.Sent),
			Sessions: st.Sessions, Lost: st.Lost, Ignored: st.Ignored, Missing: st.Missing, BFD: st.BFD,
		})
	}
	return &snapshot{report: out, paths: r.wanted.Paths, states: states}
}

// phase of a peer without a session is idle.
func phase(st session.State) session.Phase {
	if st.Phase == "" {
		return session.Idle
	}
	return st.Phase
}
