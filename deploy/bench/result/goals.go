package result

// Goals returns what vipod is held to.
func Goals() []Goal {
	goals := []Goal{
		{Text: "graceful hand-over: probes lost", Measurement: "handover", Metric: "lost", Stat: Max, Limit: 0},
		{Text: "graceful hand-over: SIGTERM to the successor's first GARP", Measurement: "handover", Metric: "first GARP", Stat: P50, Limit: 50, Cause: apart},
		{Text: "first GARP after the claim's watch event", Measurement: "handover", Metric: "first GARP after the claim", Stat: P50, Limit: 5, Cause: passes},
		{Text: "first NA after the claim's watch event", Measurement: "handover", Metric: "first NA after the claim", Stat: P50, Limit: 5, Cause: passes},
		{Text: "IPv6 after IPv4", Measurement: "handover", Metric: "NA after GARP", Stat: Max, Limit: 20, Cause: worker},
		{Text: "owner cut off, Lease 5 s: silence", Measurement: "cut", Metric: "silence", Stat: Max, Limit: 5300},
		{Text: "owner cut off and healed: two owners", Measurement: "cut", Metric: "two owners", Stat: Max, Limit: 0},
		{Text: "owner cut off, Lease 2 s: silence", Measurement: "quickcut", Metric: "silence", Stat: Max, Limit: 2300},
		{Text: "SIGKILL of one daemon: probes lost", Measurement: "kill", Metric: "lost", Stat: Max, Limit: 0},
		{Text: "SIGKILL of one daemon: VIPs that move", Measurement: "kill", Metric: "moved", Stat: Max, Limit: 0},
		{Text: "SIGKILL of all daemons: probes lost", Measurement: "killall", Metric: "lost", Stat: Max, Limit: 0},
		{Text: "SIGKILL of all daemons: VIPs that move", Measurement: "killall", Metric: "moved", Stat: Max, Limit: 0},
		{Text: "SIGSTOP of everything: two MACs", Measurement: "freeze", Metric: "two owners", Stat: Max, Limit: 0},
		{Text: "SIGSTOP of everything: the successor's first GARP", Measurement: "freeze", Metric: "first GARP", Stat: Max, Limit: 5300},
		{Text: "1000 Services: last creation until all answer", Measurement: "create", Case: "1000", Metric: createdMetric, Stat: P50, Limit: 1},
		{Text: "5000 Services: last creation until all answer", Measurement: "create", Case: "5000", Metric: createdMetric, Stat: P50, Limit: 5},
	}
	for _, n := range []string{"10", "1000", "5000"} {
		goals = append(goals, Goal{Text: n + " Services: requests while nothing happens", Measurement: "steady", Case: n, Metric: "requests", Stat: P50, Limit: 4})
	}
	return append(goals,
		Goal{Text: "owner of 1000 VIPs lost: requests in the busiest 10 s", Measurement: "flood", Metric: "requests, busiest 10 s", Stat: Max, Limit: 8},
		Goal{Text: "owner of 1000 VIPs lost: from the first to the last that answers", Measurement: "flood", Metric: "from the first to the last", Stat: P50, Limit: 250},
		Goal{Text: "500 Services: PSS of a node's daemons", Measurement: "memory", Case: "idle", Metric: "PSS", Stat: Max, Limit: 48},
		Goal{Text: "500 Services: processor time of a node's daemons while nothing happens", Measurement: "memory", Case: "idle", Metric: "processor time", Stat: P50, Limit: 3, Cause: renewals},
		Goal{Text: "Services come and go: slope of PSS", Measurement: "memory", Case: "churn", Metric: "slope of PSS", Stat: P50, Limit: 0.5},
		Goal{Text: "1000 VIPs: announcements while nothing happens", Measurement: "steady", Case: "1000", Metric: "announcements", Stat: P50, Limit: 17},
	)
}

// Causes of what is missed.
const (
	passes   = "vipd and arpd each make a whole pass between the claim and the frame: they read the documents, list links, addresses and their table, and wake a collection of garbage, 2 to 4 ms of processor time each. The same events wake twenty daemons, three proxies and the API server of the lab on two processors, so that most of the time is spent waiting for one. It would take a machine for each node, and passes that read only what an event was about."
	apart    = "the mute, the release and the claim come one after the other, which is what keeps two owners apart: two passes on the old node, two writes to the API server and their way back on the watch, and then what is between the claim and the first frame. It would take a successor named in the release, which could be ready before it."
	worker   = "an IPv6 address is announced once the kernel receives packets for it, which its worker arranges when it gets a processor; before that the first packets were routed away. It would take processors that are not shared."
	renewals = "three Leases and the control plane's are each written and seen once a second; of each a grant is written and read by the daemons, and at each the claims of all Services are looked through. It would take a look at only those that an event can concern, and one Lease for both."
)

const createdMetric = "last creation until all answer"
