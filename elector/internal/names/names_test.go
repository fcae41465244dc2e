package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/dns/dnsmessage"
)

var compare = cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()}

func ips(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// zone is a DNS server of the test.
type zone struct {
	mu    sync.Mutex
	found []netip.Addr
	ttl   time.Duration
	err   error
	asked int
}

func (z *zone) query(context.Context, string) ([]netip.Addr, time.Duration, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	return z.found, z.ttl, z.err
}

func (z *zone) count() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

func (z *zone) set(err error, found ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.found, z.err = ips(found...), err
}

func TestANameIsFollowedByItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{ttl: time.Minute}
		z.set(nil, "198.51.100.8", "198.51.100.7", "2001:db8::7")
		var changes atomic.Int64
		f := New(z.query, func() { changes.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		expect := func(four, six []netip.Addr, problem string, asked int) {
			t.Helper()
			synctest.Wait()
			want := map[string]Answer{"web.example.com": {IPv4: four, IPv6: six, Problem: problem}}
			if diff := cmp.Diff(want, f.Answers(), compare); diff != "" {
				t.Errorf("after %d questions (-want +got):\n%s", z.count(), diff)
			}
			if n := z.count(); n != asked {
				t.Errorf("asked %d times, want %d", n, asked)
			}
		}

		f.Want([]string{"web.example.com"})
		expect(ips("198.51.100.7"), ips("2001:db8::7"), "", 1)
		z.set(nil, "198.51.100.6", "198.51.100.7", "2001:db8::7") // in another order, and with a lower one
		time.Sleep(time.Minute)
		expect(ips("198.51.100.7"), ips("2001:db8::7"), "", 2)

		z.set(nil, "198.51.100.9")
		time.Sleep(time.Minute)
		expect(ips("198.51.100.9", "198.51.100.7"), ips("2001:db8::7"), "", 3)
		time.Sleep(Overlap)
		expect(ips("198.51.100.9"), nil, "", 3)

		z.set(errors.New("no such host"))
		time.Sleep(50 * time.Second)
		expect(ips("198.51.100.9"), nil, "no such host", 4)
		time.Sleep(10 * time.Minute)
		if n := z.count(); n > 30 {
			t.Errorf("asked %d times", n)
		}
		z.set(nil, "198.51.100.9")
		time.Sleep(retryMax)
		if a := f.Answers()["web.example.com"]; a.Problem != "" || len(a.IPv4) != 1 {
			t.Errorf("answer %+v", a)
		}
		synctest.Wait()
		before := changes.Load()
		time.Sleep(10 * time.Minute)
		if changes.Load() != before {
			t.Error("told of no change")
		}
		f.Want(nil)
		if len(f.Answers()) != 0 {
			t.Error("a name that nobody wants is followed")
		}
	})
}

// serve answers questions on the loopback of this machine as a DNS server.
func serve(t *testing.T, answer func(dnsmessage.Question) dnsmessage.Message) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var q dnsmessage.Message
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			m := answer(q.Questions[0])
			m.ID, m.Response, m.Questions = q.ID, true, q.Questions
			data, err := m.Pack()
			if err == nil {
				_, err = conn.WriteTo(data, from)
			}
			if err != nil {
				return
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestAskTellsTheShortestTimeToLive(t *testing.T) {
	broken := serve(t, func(dnsmessage.Question) dnsmessage.Message {
		return dnsmessage.Message{Header: dnsmessage.Header{RCode: dnsmessage.RCodeServerFailure}}
	})
	good := serve(t, func(q dnsmessage.Question) dnsmessage.Message {
		head := func(ttl uint32) dnsmessage.ResourceHeader {
			return dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
		}
		if q.Type == dnsmessage.TypeA {
			return dnsmessage.Message{Answers: []dnsmessage.Resource{
				{Header: head(7), Body: &dnsmessage.CNAMEResource{CNAME: q.Name}},
				{Header: head(60), Body: &dnsmessage.AResource{A: [4]byte{198, 51, 100, 7}}},
			}}
		}
		return dnsmessage.Message{Answers: []dnsmessage.Resource{
			{Header: head(90), Body: &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("2001:db8::7").As16()}},
		}}
	})
	found, ttl, err := Ask(t.Context(), []netip.AddrPort{broken, good}, "web.example.com")
	if diff := cmp.Diff(ips("198.51.100.7", "2001:db8::7"), found, compare); diff != "" || ttl != 7*time.Second || err != nil {
		t.Errorf("TTL %s, error %v, addresses (-want +got):\n%s", ttl, err, diff)
	}
	if _, _, err := Ask(t.Context(), []netip.AddrPort{broken}, "web.example.com"); err == nil {
		t.Error("a failing server is no answer")
	}
	gone := serve(t, func(dnsmessage.Question) dnsmessage.Message {
		return dnsmessage.Message{Header: dnsmessage.Header{RCode: dnsmessage.RCodeNameError}}
	})
	if found, _, err := Ask(t.Context(), []netip.AddrPort{gone}, "web.example.com"); err != nil || len(found) != 0 {
		t.Errorf("a name that does not exist: %v, %v", found, err)
	}
	if _, _, err := Ask(t.Context(), nil, "web.example.com"); err == nil {
		t.Error("no server is no answer")
	}
}

func FuzzDecode(f *testing.F) {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}}
	data, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(append(data, 0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, ttl, _, err := decode(data, 7, dnsmessage.TypeA)
		for _, ip := range found {
			if err != nil || !ip.Is4() || ttl < 0 || ttl > most {
				t.Fatalf("%v for %s, error %v", found, ttl, err)
			}
		}
	})
}
