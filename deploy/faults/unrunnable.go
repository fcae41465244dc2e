package faults

// Unrunnable is a fault that this suite cannot do, and why.
type Unrunnable struct{ Name, Why string }

// NotRun returns the faults that no case does.
func NotRun() []Unrunnable {
	return []Unrunnable{
		{"clock of the owner 1 h ahead or behind, or 500 ppm fast", "the wall clock is the machine's: no namespace has one of its own"},
		{"node reboot", "a namespace keeps its boot id; SIGKILL of all with a new state directory stands for it"},
		{"100 busy threads, memory limit reached", "would starve everything else on the machine; SIGSTOP and SIGKILL of all stand for it"},
		{"certificate authority rotated", "the lab's API server has one for its life; new tokens stand for new credentials"},
		{"watch answered 410 Gone", "needs an API server that has compacted its history, five minutes; cut watches and API restarts relist"},
		{"duplicate address before the claim", "the probe is repeated after 30 s only; the end-to-end tests do it"},
		{"upgrade from kube-vip in place", "its program is not part of the repository"},
		{"faults of DHCP servers, BGP peers and egress", "the tests of linkd, bgpd and egressd do them against real peers"},
	}
}
