package main

import "time"

// Labs that scenarios share.
var (
	usual = setup{duration: 5, renew: 1}
	quick = setup{duration: 2, renew: 1}
	big   = setup{duration: 5, renew: 1, idle: true}
	count = setup{duration: 5, renew: 1, idle: true, baseline: true}
	lends = setup{duration: 5, renew: 1, idle: true, links: true}
	apart = setup{duration: 5, renew: 1, idle: true, anew: true}
)

// scenarios are all measurements, in the order in which they are made. What
// shares a lab stands together.
var scenarios = []scenario{
	{
		name: "handover", lab: usual, run: handover,
		what: "All daemons of the owner get SIGTERM, as when its pod is deleted. Times are from the first signal to the successor's first unsolicited frame; \"after the claim\" is from the moment when the successor's elector saw its own claim come back on its watch. Probes: 1000 a second each by ICMP and UDP, IPv4 and IPv6.",
	},
	{
		name: "cut", lab: usual, run: cutOff,
		what: "The owner is cut off the LAN, with its carrier up, and healed when another node has taken over. Silence is the longest time without an answer at the client, of four kinds of question. Lease 5 s, renewed each second.",
	},
	{
		name: "freeze", lab: usual, run: freeze,
		what: "SIGSTOP for all daemons of the owner, SIGCONT one second after its Lease ended. Everybody is asked for the VIP all the time, so that who would claim it does; \"two owners\" counts addresses that two MACs claimed in turns.",
	},
	{
		name: "killall", lab: usual, run: killAll,
		what: "SIGKILL for all daemons of the owner, which start again at once in the first trial and after three fifths of the Lease in the last. The client looks until a second after the Lease would have ended.",
	},
	{
		name: "kill", lab: usual, run: killOne, alone: true,
		what: "SIGKILL for one daemon of a node (another one on each of the three nodes, each with a VIP of its own), started again as in killall.",
	},
	{
		name: "quickcut", lab: quick, run: cutOff,
		what: "As cut, with a Lease of 2 s, renewed each second.",
	},
	{
		name: "create", lab: big, run: create, creates: true, patience: 4 * time.Minute,
		what: "Services with one IPv6 address each are made, 64 requests at a time, together with their EndpointSlices. kube-proxy does not run: with three of them on this machine they would be what is measured. Each VIP is sent an ICMP echo request when it is announced, and is asked for by neighbor solicitation until it answers. A Service's creation is the API server's answer to it.",
	},
	{
		name: "steady", lab: count, run: steady, creates: true,
		what: "Requests that the API server counted (apiserver_request_total) while nothing happens, with three nodes, beyond those that the lab itself makes without the system, which were counted before. Health checks reach no object (/readyz of the API server on each node, once per renewal, for the control plane's VIP). Announcements are unsolicited ARP and NA frames on the LAN in the same time.",
	},
	{
		name: "memory", lab: count, run: memory, creates: true,
		what: "The programs of each node with 500 Services: proportional set size from smaps_rollup, processor time from schedstat over 30 s. Then Services come and go, ten a second, while 500 stay.",
	},
	{
		name: "dhcp", lab: lends, run: dhcp, creates: true, alone: true,
		what: "Services are made that ask a DHCP server (dnsmasq) for their address, one at a time and 200 at once, each with a macvlan of its own. A Service's creation is the API server's answer to it. It is announced by the first ARP packet or neighbor advertisement that claims its address, at another machine of the LAN. The 200 are of IPv6.",
	},
	{
		name: "storm", lab: apart, run: storm, creates: true, alone: true,
		what: "250 Services with their EndpointSlices are made a second, and as many deleted, or as many as the API server takes; 500 are there at a time. PSS is that of a node's daemons, looked at every 5 s, and again when all are gone.",
	},
	{
		name: "flood", lab: apart, run: flood, creates: true, alone: true, patience: 3 * time.Minute,
		what: "The owner of 1000 VIPs is cut off; two nodes take over. Each VIP is sent an echo request when it is announced. Requests to the API server are counted for each second until 20 s after.",
	},
}
