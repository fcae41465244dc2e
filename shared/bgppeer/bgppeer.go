// Package bgppeer reads kube-vip's text form of a BGP peer:
//
//	<address>:<AS>:<password>:<multihop>:<port>:<key=value;...>:<BFD>
//
// All but the address may be left out from the end. An IPv6 address is in
// brackets, in the values as well; unnumbered:<link> names the router on a link. Keys are
// mpbgp_nexthop, mpbgp_ipv4 and mpbgp_ipv6; BFD is enable;rx;tx;multiplier.
// Elector makes peers of it; bgpd, which no password may reach in a document,
// reads it for the password alone.
package bgppeer

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/vipod/vipod/shared/schema"
)

// Port is that of a peer whose text leaves it out.
const Port = 179

// Modes of mpbgp_nexthop: where the next hop of the family comes from that
// the session itself does not have.
const (
	NextHopFixed    = "fixed"
	NextHopSourceIP = "auto_sourceip"
	NextHopSourceIf = "auto_sourceif"
)

// Peer is what the text says.
type Peer struct {
	// Address is invalid for an unnumbered peer, which is on Link.
	Address  netip.Addr
	Link     string
	AS       uint32 // 0: not given
	Password string
	Multihop bool
	Port     uint16
	// NextHop is a mode, "" for none; NextHop4 and NextHop6 go with fixed.
	NextHop            string
	NextHop4, NextHop6 netip.Addr
	// BFD is nil for none.
	BFD *schema.BFD
}

// Name returns the peer's name, by which its password's file is called.
func (p Peer) Name() string {
	if !p.Address.IsValid() {
		return "unnumbered-" + p.Link
	}
	return p.Address.WithZone("").String()
}

const unnumbered = "unnumbered:"

// ParseList reads peers with commas between. No error repeats a password.
func ParseList(text string) ([]Peer, error) {
	var peers []Peer
	var errs []error
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		p, err := Parse(item)
		if err != nil {
			errs = append(errs, fmt.Errorf("peer %d: %w", len(peers)+len(errs)+1, err))
			continue
		}
		peers = append(peers, p)
	}
	return peers, errors.Join(errs...)
}

// Parse reads one peer. No error repeats a password.
func Parse(text string) (Peer, error) {
	p := Peer{Port: Port}
	rest, err := p.address(text)
	if err != nil {
		return Peer{}, err
	}
	fields := split(rest)
	const most = 7 // the one before the first colon is empty
	if len(fields) > most {
		return Peer{}, fmt.Errorf("%d parts are too many: want at most %d; a password with a colon goes into a file", len(fields), most)
	}
	if fields[0] != "" {
		return Peer{}, errors.New("there is something between the address and its colon")
	}
	readers := []func(string) error{p.as, p.password, p.multihop, p.port, p.nextHop, p.bfd}
	for i, field := range fields[1:] {
		if field == "" {
			continue
		}
		if err := readers[i](field); err != nil {
			return Peer{}, err
		}
	}
	if p.AS == 0 && p.Address.IsValid() {
		return Peer{}, fmt.Errorf("peer %s has no AS: want <address>:<AS>", p.Name())
	}
	return p, nil
}

// split splits at colons, but for those in brackets.
func split(text string) []string {
	var fields []string
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']' && depth > 0:
			depth--
		case r == ':' && depth == 0:
			fields, from = append(fields, text[from:i]), i+1
		}
	}
	return append(fields, text[from:])
}

// address reads what stands before the first colon that is not the address's
// own, and returns the rest from that colon on.
func (p *Peer) address(text string) (rest string, err error) {
	if link, ok := strings.CutPrefix(text, unnumbered); ok {
		p.Link, _, _ = strings.Cut(link, ":")
		if schema.ValidateInterface(p.Link) != nil {
			return "", fmt.Errorf("unnumbered peer: %.20q is not the name of a link", p.Link)
		}
		return link[len(p.Link):], nil
	}
	host, rest := text, ""
	switch inner, bracket := strings.CutPrefix(text, "["); {
	case bracket:
		end := strings.IndexByte(inner, ']')
		if end < 0 {
			return "", errors.New("the bracket around the address is not closed")
		}
		host, rest = inner[:end], inner[end+1:]
	default:
		if i := strings.IndexByte(text, ':'); i >= 0 {
			host, rest = text[:i], text[i:]
		}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() {
		return "", fmt.Errorf("%.60q is not the address of a peer (IPv6 in brackets)", host)
	}
	if p.Link = ip.Zone(); p.Link != "" && schema.ValidateInterface(p.Link) != nil {
		return "", fmt.Errorf("%.60q: the zone is not the name of a link", host)
	}
	if ip.Is6() && ip.IsLinkLocalUnicast() && p.Link == "" {
		return "", fmt.Errorf("%s is link-local: want its link behind a percent sign", ip)
	}
	p.Address = ip.WithZone("")
	return rest, nil
}

func (p *Peer) as(text string) error {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf("%.20q is not an AS, 1 to 4294967295", text)
	}
	p.AS = uint32(n)
	return nil
}

func (p *Peer) password(text string) error {
	p.Password = text
	return nil
}

func (p *Peer) multihop(text string) error {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("the part for multihop is neither true nor false; a password with a colon goes into a file")
	}
	p.Multihop = v
	return nil
}

func (p *Peer) port(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return errors.New("the part for the port is not 1 to 65535")
	}
	p.Port = uint16(n)
	return nil
}

func (p *Peer) nextHop(text string) error {
	for item := range strings.SplitSeq(text, ";") {
		if item == "" {
			continue
		}
		key, value, _ := strings.Cut(item, "=")
		value = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
		var err error
		switch key {
		case "mpbgp_nexthop":
			p.NextHop = value
		case "mpbgp_ipv4":
			p.NextHop4, err = netip.ParseAddr(value)
		case "mpbgp_ipv6":
			p.NextHop6, err = netip.ParseAddr(value)
		default:
			return fmt.Errorf("%.30q is not mpbgp_nexthop, mpbgp_ipv4 or mpbgp_ipv6", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %.60q is not an address", key, value)
		}
	}
	return CheckNextHop(p.NextHop, p.NextHop4, p.NextHop6)
}

// CheckNextHop holds the settings of next hops against each other.
func CheckNextHop(mode string, v4, v6 netip.Addr) error {
	switch mode {
	case "", NextHopSourceIP, NextHopSourceIf:
	case NextHopFixed:
		if !v4.IsValid() && !v6.IsValid() {
			return errors.New("mpbgp_nexthop fixed needs mpbgp_ipv4 or mpbgp_ipv6")
		}
	default:
		return fmt.Errorf("mpbgp_nexthop %.30q is not %s, %s or %s", mode, NextHopFixed, NextHopSourceIP, NextHopSourceIf)
	}
	if v4.IsValid() && !v4.Is4() || v6.IsValid() && (!v6.Is6() || v6.Is4In6()) {
		return errors.New("mpbgp_ipv4 or mpbgp_ipv6 is an address of another family")
	}
	return nil
}

// bfd reads enable;rx;tx;multiplier, of which the numbers may be left out.
func (p *Peer) bfd(text string) error {
	parts := strings.Split(text, ";")
	on, err := strconv.ParseBool(parts[0])
	if err != nil || len(parts) > 4 {
		return errors.New("the part for BFD is not enable;rx;tx;multiplier")
	}
	b := schema.DefaultBFD()
	multiplier := uint16(b.Multiplier)
	for i, field := range []*uint16{&b.RXMillis, &b.TXMillis, &multiplier} {
		if len(parts) <= i+1 || parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseUint(parts[i+1], 10, 16)
		if err != nil {
			return errors.New("the part for BFD is not enable;rx;tx;multiplier with milliseconds and a number")
		}
		*field = uint16(n)
	}
	if multiplier > 255 {
		return errors.New("the multiplier of BFD is not 1 to 255")
	}
	b.Multiplier = uint8(multiplier)
	if err := b.Validate(); err != nil {
		return err
	}
	if on {
		p.BFD = &b
	}
	return nil
}
