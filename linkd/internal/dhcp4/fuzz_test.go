package dhcp4

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// FuzzReceive gives a machine in every state arbitrary datagrams; whatever they
// say, time passes and a lease is one that can be used.
func FuzzReceive(f *testing.F) {
	b := &bench{t: &testing.T{}, give: first, seconds: 20}
	msg, err := dhcpv4.New(dhcpv4.WithHwAddr(net.HardwareAddr(mac)), dhcpv4.WithTransactionID(dhcpv4.TransactionID{0, 0, 0, 7}))
	if err != nil {
		f.Fatal(err)
	}
	for _, kind := range []dhcpv4.MessageType{dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak} {
		for step := range byte(5) {
			f.Add(step, b.reply(msg, kind).ToBytes())
		}
	}
	f.Add(byte(0), []byte{2, 1, 6})
	f.Fuzz(func(t *testing.T, step byte, data []byte) {
		b := newBench(t, nil)
		b.silent = step&1 != 0
		b.m.Start(b.now)
		if step&2 != 0 {
			b.settle()
		}
		b.m.Receive(b.now, data, "\x02\x00\x00\x00\x00\x01")
		if l, held := b.m.Lease(); held && (!usable(l.IP) || l.Bits < 1 || l.Bits > 32 || l.Renew > l.Rebind || l.Rebind > l.Expire || l.Expire <= b.now) {
			t.Fatalf("lease %+v at %s", l, b.now)
		}
		b.silent = true
		b.pass(time.Hour)
	})
}
