package result

// Goals returns what vipod is held to.
func Goals() []Goal {
	goals := []Goal{
		{Text: "graceful hand-over: probes lost", Measurement: "handover", Metric: "lost", Stat: Max, Limit: 0},
		{Text: "graceful hand-over: SIGTERM to the successor's first GARP", Measurement: "handover", Metric: "first GARP", Stat: P50, Limit: 50},
		{Text: "first GARP after the claim's watch event", Measurement: "handover", Metric: "first GARP after the claim", Stat: P50, Limit: 5},
		{Text: "first NA after the claim's watch event", Measurement: "handover", Metric: "first NA after the claim", Stat: P50, Limit: 5},
		{Text: "IPv6 after IPv4", Measurement: "handover", Metric: "NA after GARP", Stat: Max, Limit: 20},
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
		Goal{Text: "500 Services: processor time of a node's daemons while nothing happens", Measurement: "memory", Case: "idle", Metric: "processor time", Stat: P50, Limit: 3},
		Goal{Text: "Services come and go: slope of PSS", Measurement: "memory", Case: "churn", Metric: "slope of PSS", Stat: P50, Limit: 0.5},
		Goal{Text: "1000 VIPs: announcements while nothing happens", Measurement: "steady", Case: "1000", Metric: "announcements", Stat: P50, Limit: 17},
	)
}

const createdMetric = "last creation until all answer"
