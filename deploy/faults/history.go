package faults

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"
)

// Kind is what an Event tells.
type Kind string

// Kinds of events.
const (
	// Watched is an address that is asked for from At on.
	Watched Kind = "watched"
	// Claim is a stretch of N frames, from At to Until, by which the machine
	// on the port Node claimed Addr.
	Claim Kind = "claim"
	// Silence is a time, from At to Until, in which Addr answered no question
	// of the kind Text.
	Silence Kind = "silence"
	// Lost is how many questions N of the kind Text at Addr got no answer.
	Lost Kind = "lost"
	// Noise is that of the machine that all this runs on: N questions at an
	// address that no fault is about were lost, the longest silence was from
	// At to Until.
	Noise Kind = "noise"
	// Begin is when the fault began at Node, End when it ended.
	Begin Kind = "begin"
	End   Kind = "end"
	// Step is something that the case did in between.
	Step Kind = "step"
	// Epoch is a document of Node's elector by which it owns the VIP Text
	// since the epoch N.
	Epoch Kind = "epoch"
	// Ended is a daemon that ended without being told to.
	Ended Kind = "ended"
	// Differs is something that is not as it was before, or was left.
	Differs Kind = "differs"
	// Requests is how many requests N the API server served from At to Until.
	Requests Kind = "requests"
)

// Event is one line of a History.
type Event struct {
	At    time.Time  `json:"at"`
	Until time.Time  `json:"until,omitzero"`
	Kind  Kind       `json:"kind"`
	Node  string     `json:"node,omitempty"`
	Addr  netip.Addr `json:"addr,omitzero"`
	MAC   string     `json:"mac,omitempty"`
	N     int64      `json:"n,omitempty"`
	Text  string     `json:"text,omitempty"`
}

// String returns the event in one line.
func (e Event) String() string {
	text := fmt.Sprintf("%s %s", e.At.Format("15:04:05.000000"), e.Kind)
	if !e.Until.IsZero() {
		text += " for " + e.Until.Sub(e.At).String()
	}
	if e.Node != "" {
		text += " " + e.Node
	}
	if e.Addr.IsValid() {
		text += " " + e.Addr.String()
	}
	if e.N != 0 {
		text += fmt.Sprintf(" %d", e.N)
	}
	return text + " " + e.Text
}

// History is what was done and seen, in order of time.
type History []Event

// sort puts the events in order.
func (h History) sort() {
	slices.SortStableFunc(h, func(a, b Event) int { return a.At.Compare(b.At) })
}

// of returns the events of a kind.
func (h History) of(kind Kind) History {
	var list History
	for _, e := range h {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}

// at returns the events about an address.
func (h History) at(addr netip.Addr) History {
	var list History
	for _, e := range h {
		if e.Addr == addr {
			list = append(list, e)
		}
	}
	return list
}

// addrs returns every address that a kind of events is about.
func (h History) addrs(kind Kind) []netip.Addr {
	var list []netip.Addr
	for _, e := range h.of(kind) {
		if !slices.Contains(list, e.Addr) {
			list = append(list, e.Addr)
		}
	}
	slices.SortFunc(list, func(a, b netip.Addr) int { return cmp.Compare(a.String(), b.String()) })
	return list
}

// Write writes one line of JSON per event.
func (h History) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for _, e := range h {
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("writing a history: %w", err)
		}
	}
	return out.Flush()
}

// Read reads what Write wrote.
func Read(r io.Reader) (History, error) {
	var h History
	for decoder := json.NewDecoder(r); ; {
		var e Event
		switch err := decoder.Decode(&e); err {
		case nil:
			h = append(h, e)
		case io.EOF:
			return h, nil
		default:
			return nil, fmt.Errorf("reading event %d of a history: %w", len(h)+1, err)
		}
	}
}
