package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Swept is what a Sweep has seen of one address.
type Swept struct {
	// Announced is when the first unsolicited advertisement came, Found when
	// the first of any kind, Answered when the first echo reply did. Zero
	// times have not come yet.
	Announced, Found, Answered time.Time
	// MAC is the machine that claimed the address last.
	MAC MAC
}

// Sweep finds out when thousands of IPv6 addresses of one link begin to
// answer, which a Prober for each could not. Who announces an address is sent
// an echo request at once; addresses that nobody announces are asked for by
// neighbor solicitation, one after the other. Questions and answers are
// frames of their own, so that the number of addresses is not bounded by the
// kernel's table of neighbors.
type Sweep struct {
	socket   int
	to       unix.SockaddrLinklayer
	mac      MAC
	own      netip.Addr
	ident    uint16
	listener *listener
	stop     chan struct{}
	sender   sync.WaitGroup

	mu   sync.Mutex
	seen map[netip.Addr]*Swept
	left int // that did not answer
	next []netip.Addr
}

// sweepEvery is the time between two solicitations.
const sweepEvery = time.Millisecond

// StartSweep starts to look for the addresses on an interface of the calling
// thread's namespace. own is the interface's address, to which the answers go.
func StartSweep(iface string, own netip.Addr, addrs []netip.Addr) (*Sweep, error) {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, fmt.Errorf("finding interface %s: %w", iface, err)
	}
	s := &Sweep{
		to: unix.SockaddrLinklayer{Ifindex: link.Index}, own: own, ident: uint16(os.Getpid()),
		stop: make(chan struct{}), seen: make(map[netip.Addr]*Swept, len(addrs)), left: len(addrs), next: slices.Clone(addrs),
	}
	copy(s.mac[:], link.HardwareAddr)
	for _, a := range addrs {
		s.seen[a] = &Swept{}
	}
	// Protocol 0 receives nothing.
	s.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", os.NewSyscallError("socket", err))
	}
	filter := matchAny(
		[]match{{2, 12, etherTypeIPv6}, {1, headerLen + 6, protoICMPv6}, {1, headerLen + ipv6HeaderLen, typeNA}},
		[]match{{2, 12, etherTypeIPv6}, {1, headerLen + 6, protoICMPv6}, {1, headerLen + ipv6HeaderLen, typeEchoReply}},
	)
	if s.listener, err = listen(iface, filter, s.receive); err != nil {
		return nil, errors.Join(err, unix.Close(s.socket))
	}
	s.sender.Go(s.ask)
	return s, nil
}

const (
	typeEchoRequest = 128
	typeEchoReply   = 129
	typeNS          = 135
)

// receive takes one frame.
func (s *Sweep) receive(at time.Time, data []byte) {
	if len(data) < headerLen+ipv6HeaderLen+8 {
		return
	}
	if data[headerLen+ipv6HeaderLen] == typeEchoReply {
		s.answered(at, netip.AddrFrom16([16]byte(data[headerLen+8:])))
		return
	}
	frame, ok := parseFrame(data)
	if !ok {
		return
	}
	s.mu.Lock()
	seen := s.seen[frame.IP]
	if seen != nil {
		seen.MAC = frame.Source
		if seen.Found.IsZero() {
			seen.Found = at
		}
		if seen.Announced.IsZero() && frame.Unsolicited {
			seen.Announced = at
		}
	}
	ask := seen != nil && seen.Answered.IsZero()
	s.mu.Unlock()
	if ask {
		s.send(s.echo(frame.IP, frame.Source))
	}
}

func (s *Sweep) answered(at time.Time, from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.seen[from]; seen != nil && seen.Answered.IsZero() {
		seen.Answered = at
		s.left--
	}
}

// ask sends a solicitation for one address after the other until Stop.
func (s *Sweep) ask() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		if addr, ok := s.silent(); ok {
			s.send(s.solicitation(addr))
		}
	}
}

// silent returns the next address that has not answered.
func (s *Sweep) silent() (netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range len(s.next) {
		addr := s.next[0]
		s.next = s.next[1:]
		if s.seen[addr].Answered.IsZero() {
			s.next = append(s.next, addr)
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// send sends a frame. One that is lost is sent again when its turn comes.
func (s *Sweep) send(frame []byte) { _ = unix.Sendto(s.socket, frame, 0, &s.to) }

// solicitation asks who has the address, RFC 4861 section 4.3.
func (s *Sweep) solicitation(target netip.Addr) []byte {
	t := target.As16()
	// RFC 4291 section 2.7.1: the solicited-node address.
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], t[13:])
	message := append([]byte{typeNS, 0, 0, 0, 0, 0, 0, 0}, t[:]...)
	message = append(message, 1, 1) // source link-layer address
	message = append(message, s.mac[:]...)
	return s.packet(MAC{0x33, 0x33, 0xff, group[13], group[14], group[15]}, netip.AddrFrom16(group), message)
}

// echo asks the address for an answer, RFC 4443 section 4.1.
func (s *Sweep) echo(target netip.Addr, mac MAC) []byte {
	message := []byte{typeEchoRequest, 0, 0, 0}
	message = binary.BigEndian.AppendUint16(message, s.ident)
	return s.packet(mac, target, append(message, 0, 0))
}

// packet returns the frame of an ICMPv6 message whose checksum is 0 yet.
func (s *Sweep) packet(mac MAC, to netip.Addr, message []byte) []byte {
	source, target := s.own.As16(), to.As16()
	pseudo := append(append([]byte{}, source[:]...), target[:]...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(message)))
	pseudo = append(pseudo, 0, 0, 0, protoICMPv6)
	binary.BigEndian.PutUint16(message[2:], checksum(append(pseudo, message...)))

	frame := append(append([]byte{}, mac[:]...), s.mac[:]...)
	frame = binary.BigEndian.AppendUint16(frame, etherTypeIPv6)
	frame = append(frame, 0x60, 0, 0, 0, 0, byte(len(message)), protoICMPv6, 255)
	frame = append(frame, source[:]...)
	frame = append(frame, target[:]...)
	return append(frame, message...)
}

// Silent returns how many addresses have not answered yet.
func (s *Sweep) Silent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// Stop ends the sweep and returns what it saw of each address.
func (s *Sweep) Stop() map[netip.Addr]Swept {
	close(s.stop)
	s.sender.Wait()
	s.listener.close()
	unix.Close(s.socket)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[netip.Addr]Swept, len(s.seen))
	for addr, v := range s.seen {
		seen[addr] = *v
	}
	return seen
}
