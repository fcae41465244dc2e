package names

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	resolvConf = "/etc/resolv.conf"
	// perServer is how long one server has to answer.
	perServer = 1500 * time.Millisecond
	// unknownTTL holds for an answer of the system's resolver, which tells none.
	unknownTTL = 30 * time.Second
	maxMessage = 64 << 10
)

// System asks the servers of /etc/resolv.conf, since only their own answers tell
// the time to live. What they do not know, such as a name of /etc/hosts or of a
// search domain, the system's resolver may.
func System(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	found, ttl, err := Ask(ctx, servers(resolvConf), name)
	if err == nil && len(found) > 0 {
		return found, ttl, nil
	}
	found, systemErr := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if systemErr != nil {
		return nil, 0, fmt.Errorf("looking up %s: %w", name, systemErr)
	}
	return found, unknownTTL, nil
}

// servers are those of a file as resolv.conf(5) has it.
func servers(path string) (list []netip.AddrPort) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil // the system's resolver says what is wrong
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if ip, err := netip.ParseAddr(fields[1]); err == nil {
			list = append(list, netip.AddrPortFrom(ip, 53))
		}
	}
	return list
}

// Ask asks the servers, one after the other until one answers, for the
// addresses of both families. The shortest time to live counts.
func Ask(ctx context.Context, servers []netip.AddrPort, name string) (found []netip.Addr, ttl time.Duration, err error) {
	if !strings.HasSuffix(name, ".") {
		name += "."
	}
	full, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, 0, fmt.Errorf("name %q: %w", name, err)
	}
	err = errors.New("no DNS server is known")
	for _, s := range servers {
		if found, ttl, err = askBoth(ctx, s, full); err == nil {
			return found, ttl, nil
		}
	}
	return nil, 0, err
}

func askBoth(ctx context.Context, server netip.AddrPort, name dnsmessage.Name) (found []netip.Addr, ttl time.Duration, err error) {
	ttl = most
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		some, life, err := ask(ctx, server, name, kind)
		if err != nil {
			return nil, 0, fmt.Errorf("asking %s for %s: %w", server, name, err)
		}
		found, ttl = append(found, some...), min(ttl, life)
	}
	return found, ttl, nil
}

func ask(ctx context.Context, server netip.AddrPort, name dnsmessage.Name, kind dnsmessage.Type) ([]netip.Addr, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, perServer)
	defer cancel()
	id := uint16(rand.Uint32())
	q := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: kind, Class: dnsmessage.ClassINET}},
	}
	query, err := q.Pack()
	if err != nil {
		return nil, 0, err
	}
	for _, network := range []string{"udp", "tcp"} {
		answer, err := exchange(ctx, network, server, query)
		if err != nil {
			return nil, 0, err
		}
		found, ttl, truncated, err := decode(answer, id, kind)
		if err != nil || !truncated {
			return found, ttl, err
		}
	}
	return nil, 0, errors.New("the answer is truncated over TCP, too")
}

// exchange sends a question and reads the answer.
func exchange(ctx context.Context, network string, server netip.AddrPort, query []byte) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the answer is read, or will not come
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if network == "tcp" { // RFC 1035, 4.2.2
		query = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, maxMessage)
	if network == "udp" {
		n, err := conn.Read(buf)
		return buf[:n], err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n, err := io.ReadFull(conn, buf[:binary.BigEndian.Uint16(length[:])])
	return buf[:n], err
}

// decode reads an answer. A name that does not exist has no addresses, and holds
// as long as least.
func decode(data []byte, id uint16, kind dnsmessage.Type) (found []netip.Addr, ttl time.Duration, truncated bool, err error) {
	var p dnsmessage.Parser
	head, err := p.Start(data)
	switch {
	case err != nil:
		return nil, 0, false, err
	case head.ID != id || !head.Response:
		return nil, 0, false, errors.New("the answer is to another question")
	case head.Truncated:
		return nil, 0, true, nil
	case head.RCode != dnsmessage.RCodeSuccess && head.RCode != dnsmessage.RCodeNameError:
		return nil, 0, false, fmt.Errorf("the server says %s", head.RCode)
	}
	if err := p.SkipAllQuestions(); err != nil {
		return nil, 0, false, err
	}
	ttl = most
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return found, ttl, false, nil
		}
		if err != nil {
			return nil, 0, false, err
		}
		ttl = min(ttl, time.Duration(h.TTL)*time.Second) // of aliases, too
		switch {
		case h.Type == dnsmessage.TypeA && kind == h.Type:
			r, err := p.AResource()
			if err != nil {
				return nil, 0, false, err
			}
			found = append(found, netip.AddrFrom4(r.A))
		case h.Type == dnsmessage.TypeAAAA && kind == h.Type:
			r, err := p.AAAAResource()
			if err != nil {
				return nil, 0, false, err
			}
			found = append(found, netip.AddrFrom16(r.AAAA))
		default:
			if err := p.SkipAnswer(); err != nil {
				return nil, 0, false, err
			}
		}
	}
}
