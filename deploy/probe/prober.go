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
	// LostAt is when the questions without an answer were asked, in order.
	LostAt []time.Time
	// Refused is why the kernel last refused to send a question, which is lost
	// then as well.
	Refused error
	// Answerers are the machines that answered. More than one is normal only
	// when the address has moved.
	Answerers map[MAC]Answerer
}

// Lost returns how many questions got no answer.
func (r Result) Lost() int { return r.Sent - r.Received }

func (r Result) String() string {
	text := fmt.Sprintf("%d of %d lost, silence of at most %v", r.Lost(), r.Sent, r.Gap)
	if len(r.LostAt) > 0 {
		const layout = "15:04:05.000"
		text += fmt.Sprintf(", lost from %s until %s", r.LostAt[0].Format(layout), r.LostAt[len(r.LostAt)-1].Format(layout))
	}
	if r.Refused != nil {
		text += fmt.Sprintf(", refused by the kernel: %v", r.Refused)
	}
	return text
}

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
	// open are the questions without an answer yet: when they were asked.
	open map[uint64]time.Time
	last time.Time // last answer, or the start
}

// Start starts to ask, from the calling thread's network namespace.
func Start(opts Options) (*Prober, error) {
	if opts.Every == 0 {
		opts.Every = time.Millisecond
	}
	p := &Prober{
		opts: opts, magic: rand.Uint64(), ident: uint16(rand.Uint32()), stop: make(chan struct{}),
		last: time.Now(), result: Result{Answerers: map[MAC]Answerer{}}, open: map[uint64]time.Time{},
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
		p.open[counter] = time.Now()
		p.mu.Unlock()
		question := p.question(counter)
		if _, err := unix.Write(p.socket, question); err != nil {
			// It may be the report of an earlier question's fate.
			if _, err := unix.Write(p.socket, question); err != nil {
				p.mu.Lock()
				p.result.Refused = os.NewSyscallError("write", err)
				p.mu.Unlock()
			}
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
	counter, ok := p.answered(frame[headerLen:])
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waiting := p.open[counter]; waiting { // not the answer's copy
		delete(p.open, counter)
		p.result.Received++
	}
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

// answered returns which of our questions an IP packet carries back.
func (p *Prober) answered(packet []byte) (counter uint64, ok bool) {
	var proto byte
	var message []byte
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		header := int(packet[0]&0xf) * 4
		if len(packet) < header {
			return 0, false
		}
		proto, message = packet[9], packet[header:]
	case len(packet) >= 40 && packet[0]>>4 == 6:
		proto, message = packet[6], packet[40:]
	}
	// Behind eight octets of header, both of ICMP and of UDP.
	if len(message) < 24 || binary.BigEndian.Uint64(message[8:]) != p.magic {
		return 0, false
	}
	answer := proto == protoICMP && message[0] == 0 || proto == protoICMPv6 && message[0] == 129 || proto == protoUDP
	return binary.BigEndian.Uint64(message[16:]), answer
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
	r := p.counted()
	r.noteGap(p.last, time.Now())
	return r
}

// lastAnswers is how long answers to the last questions are waited for, longer
// than a busy machine lets a program wait for its turn.
const lastAnswers = 500 * time.Millisecond

// Stop stops asking, waits a moment for the last answers, and returns what
// was seen.
func (p *Prober) Stop() Result {
	close(p.stop)
	p.sender.Wait()
	ended := time.Now()
	for p.waiting() && time.Since(ended) < lastAnswers {
		time.Sleep(5 * time.Millisecond)
	}
	p.listener.close()
	unix.Close(p.socket)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteGap(p.last, ended)
	return p.counted()
}

// waiting says whether a question is without an answer that was asked after
// the last one that has one: those before are lost.
func (p *Prober) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.open {
		if at.After(p.last) {
			return true
		}
	}
	return false
}

// counted returns the result with the questions that have no answer by now.
func (p *Prober) counted() Result {
	r := p.result
	r.Answerers = maps.Clone(r.Answerers)
	r.Silences = slices.Clone(r.Silences)
	r.LostAt = slices.SortedFunc(maps.Values(p.open), time.Time.Compare)
	return r
}
