package pod

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// Report is the whole pod for a person or a program: the answer to /status.
type Report struct {
	Node       string                       `json:"node"`
	Phase      schema.Phase                 `json:"phase"`
	Synced     bool                         `json:"synced"`
	Components []Component                  `json:"components"`
	VIPs       []VIPReport                  `json:"vips"`
	Grants     map[schema.GrantName]float64 `json:"grantRemainingSeconds"`
	// Problems are files that could not be read, by path.
	Problems map[string]string `json:"problems,omitempty"`
}

// Component is one daemon of the pod.
type Component struct {
	Name string `json:"name"`
	Answer
	Conditions []schema.Condition `json:"conditions,omitempty"`
}

// Answer is what a daemon's socket tells.
type Answer struct {
	// Enabled is false for a daemon that is switched off on this node.
	Enabled bool `json:"enabled"`
	// Up: it answers. Ready: it says that it is ready.
	Up      bool   `json:"up"`
	Ready   bool   `json:"ready"`
	Version string `json:"version,omitempty"`
	// Message says why it is not up or not ready.
	Message string `json:"message,omitempty"`
}

// VIPReport is one VIP.
type VIPReport struct {
	Key       string           `json:"key"`
	State     schema.State     `json:"state,omitempty"`
	Addresses []AddressReport  `json:"addresses"`
	Announced bool             `json:"announced"`
	Grant     schema.GrantName `json:"grant,omitempty"`
	// Remaining is how long the VIP's grant lasts, in seconds.
	Remaining float64 `json:"grantRemainingSeconds"`
}

// AddressReport is one address of a VIP.
type AddressReport struct {
	IP      netip.Addr `json:"ip"`
	Present bool       `json:"present"`
}

// Components returns the daemons that matter on this node: those that are
// switched on, or all while elector has not said.
func (s Snapshot) Components() []string {
	var names []string
	for _, d := range ownership.Table() {
		if s.enabled(d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

// enabled takes elector and metricsd as on whatever they say of themselves.
func (s Snapshot) enabled(name string) bool {
	return s.Node == nil || name == ownership.Elector || name == ownership.Metricsd ||
		slices.Contains(s.Node.Components, name)
}

// Report makes the report of what the files and the sockets tell.
func (s Snapshot) Report(answers map[string]Answer) Report {
	r := Report{Grants: map[schema.GrantName]float64{}, VIPs: []VIPReport{}}
	if s.Node != nil {
		r.Node, r.Phase, r.Synced = s.Node.Name, s.Node.Phase, s.Node.Synced
	}
	for _, d := range ownership.Table() {
		c := Component{Name: d.Name, Answer: answers[d.Name], Conditions: s.Daemons[d.Name].Conditions}
		c.Enabled = s.enabled(d.Name)
		r.Components = append(r.Components, c)
	}
	for name, left := range s.Granted {
		r.Grants[name] = left.Seconds()
	}
	for _, v := range s.VIPs {
		r.VIPs = append(r.VIPs, s.vip(v))
	}
	if len(s.Problems) > 0 {
		r.Problems = map[string]string{}
	}
	for path, err := range s.Problems {
		r.Problems[path] = err.Error()
	}
	return r
}

func (s Snapshot) vip(v VIP) VIPReport {
	r := VIPReport{Key: v.Key, Announced: v.Announced(), Addresses: []AddressReport{}}
	if v.Intent != nil {
		r.State, r.Grant, r.Remaining = v.Intent.State, v.Intent.Grant, s.Granted[v.Intent.Grant].Seconds()
	}
	present := v.Present()
	for _, ip := range slices.SortedFunc(maps.Keys(present), netip.Addr.Compare) {
		r.Addresses = append(r.Addresses, AddressReport{IP: ip, Present: present[ip]})
	}
	return r
}
