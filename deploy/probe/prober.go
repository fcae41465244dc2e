package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what a Prober asks.
type Options struct {
	// Iface is the interface that answers come in on.
	Iface string
	// Target is the address asked.
	Target netip.Addr
	// UDPPort is a port of Target behind which datagrams are sent back as
	// they are; 0 means ICMP echo.
	UDPPort uint16
	// Every is the time between two questions; 1 ms if zero.
	Every time.Duration
	// Silence is from what length on a time without an answer is noted in
	// Result.Silences; none is if zero.
	Silence time.Duration
}

// Silence is a time without an answer.
type Silence struct{ From, To time.Time }

// Answerer is a machine that answered, by the MAC that its answers came from.
type Answerer struct {
	First, Last time.Time
	Count       int
}

// Result is what a Prober has seen.
type Result struct {
	Sent, Received int
	// Gap is the longest time between two answers, or without a first or
	// next one; GapStart is when it began.
	Gap      time.Duration
	GapStart time.Time
	// Silences are those of at least Options.Silence, in order.
	Silences []Silence
	// Answerers are the machines that answered. More than one is normal only
	// when the address has moved.
	Answerers map[MAC]Answerer
}

// Lost returns how many questions got no answer.
func (r Result) Lost() int { return r.Sent - r.Received }

// Prober asks an address again and again and records the answers.
type Prober struct {
	opts     Options
	socket   int
	listener *listener
	magic    uint64
	ident    uint16
	stop     chan struct{}
	sender   sync.WaitGroup

	mu     sync.Mutex
	result Result
	last   time.Time // last answer, or the start
}

// Start starts to ask, from the calling thread's network namespace.
func Start(opts Options) (*Prober, error) {
	if opts.Every == 0 {
		opts.Every = time.Millisecond
	}
	p := &Prober{
		opts: opts, magic: rand.Uint64(), ident: uint16(rand.Uint32()), stop: make(chan struct{}),
		last: time.Now(), result: Result{Answerers: map[MAC]Answerer{}},
	}
	var err error
	if p.socket, err = opts.openSocket(); err != nil {
		return nil, fmt.Errorf("probing %s: %w", opts.Target, err)
	}
	if p.listener, err = listen(opts.Iface, fromAddr(opts.Target), p.receive); err != nil {
		unix.Close(p.socket)
		return nil, fmt.Errorf("probing %s: %w", opts.Target, err)
	}
	p.sender.Go(p.send)
	return p, nil
}

// fromAddr is a filter for IP packets from an address.
func fromAddr(addr netip.Addr) []unix.SockFilter {
	if addr.Is4() {
		ip := addr.As4()
		return matchAny([]match{{2, 12, etherTypeIPv4}, {4, headerLen + 12, binary.BigEndian.Uint32(ip[:])}})
	}
	ip := addr.As16()
	list := []match{{2, 12, etherTypeIPv6}}
	for i := uint32(0); i < 16; i += 4 {
		list = append(list, match{4, headerLen + 8 + i, binary.BigEndian.Uint32(ip[i:])})
	}
	return matchAny(list)
}

// openSocket opens the socket that questions are sent from. Answers are read
// elsewhere, with their MAC; here a filter drops them.
func (o Options) openSocket() (int, error) {
	family, kind, proto := unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6
	var target unix.Sockaddr
	if o.Target.Is4() {
		family, proto = unix.AF_INET, unix.IPPROTO_ICMP
		target = &unix.SockaddrInet4{Port: int(o.UDPPort), Addr: o.Target.As4()}
	} else {
		target = &unix.SockaddrInet6{Port: int(o.UDPPort), Addr: o.Target.As16()}
	}
	if o.UDPPort != 0 {
		kind, proto = unix.SOCK_DGRAM, unix.IPPROTO_UDP
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = errors.Join(attach(fd, matchAny()), os.NewSyscallError("connect", unix.Connect(fd, target)))
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// send asks until the prober is stopped. A question whose time has passed is
// left out, not sent late.
func (p *Prober) send() {
	next := time.Now()
	for counter := uint64(0); ; counter++ {
		select {
		case <-p.stop:
			return
		case <-time.After(time.Until(next)):
		}
		p.mu.Lock()
		p.result.Sent++
		p.mu.Unlock()
		question := p.question(counter)
		if _, err := unix.Write(p.socket, question); err != nil {
			// It may be the report of an earlier question's fate.
			_, _ = unix.Write(p.socket, question)
		}
		next = next.Add(p.opts.Every)
		if now := time.Now(); next.Before(now) {
			next = now
		}
	}
}

// question returns the datagram or the ICMP message to be sent.
func (p *Prober) question(counter uint64) []byte {
	payload := binary.BigEndian.AppendUint64(nil, p.magic)
	payload = binary.BigEndian.AppendUint64(payload, counter)
	if p.opts.UDPPort != 0 {
		return payload
	}
	kind := byte(8)
	if p.opts.Target.Is6() {
		kind = 128
	}
	message := []byte{kind, 0, 0, 0}
	message = binary.BigEndian.AppendUint16(message, p.ident)
	message = binary.BigEndian.AppendUint16(message, uint16(counter))
	message = append(message, payload...)
	if p.opts.Target.Is4() { // for IPv6 the kernel does it
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	return message
}

func checksum(message []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(message); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(message[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// receive records one frame if it is an answer.
func (p *Prober) receive(at time.Time, frame []byte) {
	if !p.isAnswer(frame[headerLen:]) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Received++
	p.noteGap(p.last, at)
	p.last = at
	mac := MAC(frame[6:12])
	a := p.result.Answerers[mac]
	if a.Count == 0 {
		a.First = at
	}
	a.Last = at
	a.Count++
	p.result.Answerers[mac] = a
}

// isAnswer says whether an IP packet carries a question of ours back.
func (p *Prober) isAnswer(packet []byte) bool {
	var proto byte
	var message []byte
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		header := int(packet[0]&0xf) * 4
		if len(packet) < header {
			return false
		}
		proto, message = packet[9], packet[header:]
	case len(packet) >= 40 && packet[0]>>4 == 6:
		proto, message = packet[6], packet[40:]
	}
	if len(message) < 16 || binary.BigEndian.Uint64(message[8:]) != p.magic {
		return false
	}
	switch proto {
	case protoICMP:
		return message[0] == 0
	case protoICMPv6:
		return message[0] == 129
	}
	return proto == protoUDP
}

// noteGap notes the time between two answers.
func (p *Prober) noteGap(from, to time.Time) {
	p.result.noteGap(from, to)
	if p.opts.Silence > 0 && to.Sub(from) >= p.opts.Silence {
		p.result.Silences = append(p.result.Silences, Silence{from, to})
	}
}

func (r *Result) noteGap(from, to time.Time) {
	if gap := to.Sub(from); gap > r.Gap {
		r.Gap, r.GapStart = gap, from
	}
}

// Result returns what was seen so far.
func (p *Prober) Result() Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.result
	r.Answerers = maps.Clone(r.Answerers)
	r.Silences = slices.Clone(r.Silences)
	r.noteGap(p.last, time.Now())
	return r
}

// Stop stops asking, waits a moment for the last answers, and returns what
// was seen.
func (p *Prober) Stop() Result {
	close(p.stop)
	p.sender.Wait()
	ended := time.Now()
	time.Sleep(20 * time.Millisecond)
	p.listener.close()
	unix.Close(p.socket)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteGap(p.last, ended)
	return p.result
}
