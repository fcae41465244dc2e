package session

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// flooded is how many prefixes a peer announces in the flood. GoBGP's server
// grew from 16 to 396 MiB by them, with a policy that refuses all imports.
const flooded = 500_000

// router is a peer that opens a session and announces what it has.
func router(conn net.Conn, n int) error {
	send := func(m *bgp.BGPMessage) error {
		data, err := m.Serialize()
		if err != nil {
			return err
		}
		_, err = conn.Write(data)
		return err
	}
	err := send(bgp.NewBGPOpenMessage(64512, 90, "192.0.2.2", []bgp.OptionParameterInterface{
		bgp.NewOptionParameterCapability([]bgp.ParameterCapabilityInterface{
			bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapFourOctetASNumber(64512),
		}),
	}))
	if err == nil {
		err = send(bgp.NewBGPKeepAliveMessage())
	}
	for i := 0; i < n && err == nil; {
		var prefixes []*bgp.IPAddrPrefix
		for end := min(i+500, n); i < end; i++ {
			prefixes = append(prefixes, bgp.NewIPAddrPrefix(32, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)))
		}
		err = send(bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{
			bgp.NewPathAttributeOrigin(0),
			bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64512})}),
			bgp.NewPathAttributeNextHop("192.0.2.2"),
		}, prefixes))
	}
	return err
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestFloodOfPrefixesTakesNoMemory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr)
	s := New(slog.New(slog.DiscardHandler), Config{
		BGPPeer: schema.BGPPeer{
			Name: "flooder", Address: netip.MustParseAddr("127.0.0.1"), Port: uint16(at.Port), AS: 64512, IPv4: true,
			HoldSeconds: 90, KeepaliveSeconds: 30, RetrySeconds: 1,
		},
		LocalAS: 64513, RouterID: netip.MustParseAddr("192.0.2.1"),
	}, false, nil, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := heap()
	if err := router(conn, flooded); err != nil {
		t.Fatalf("the flood was not taken: %v", err)
	}
	statetest.Eventually(t, "every UPDATE was read", func() bool { return s.State().Ignored == flooded/500 })
	if state := s.State(); state.Phase != Established {
		t.Errorf("the session is %v: %s", state.Phase, state.Problem)
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew by %d KiB", (after-before)>>10)
	}
}
