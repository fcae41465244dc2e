package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/vipod/vipod/shared/bgppeer"
	"github.com/vipod/vipod/shared/schema"
)

// peerFile is the YAML form of peers.
type peerFile struct {
	Peers []filePeer `yaml:"peers"`
}

// filePeer is one of them. What it leaves out is as the settings say.
type filePeer struct {
	Name             string                  `yaml:"name"`
	Address          netip.Addr              `yaml:"address"`
	Interface        string                  `yaml:"interface"`
	ASN              uint32                  `yaml:"asn"`
	Port             uint16                  `yaml:"port"`
	SourceAddress    netip.Addr              `yaml:"sourceAddress"`
	SourceInterface  string                  `yaml:"sourceInterface"`
	Multihop         bool                    `yaml:"multihop"`
	GTSM             bool                    `yaml:"gtsm"`
	Password         bool                    `yaml:"password"`
	HoldTime         *time.Duration          `yaml:"holdTime"`
	Keepalive        *time.Duration          `yaml:"keepalive"`
	ConnectRetry     *time.Duration          `yaml:"connectRetry"`
	GracefulRestart  *time.Duration          `yaml:"gracefulRestart"`
	Families         []string                `yaml:"families"`
	NextHop4         netip.Addr              `yaml:"nextHop4"`
	NextHop6         netip.Addr              `yaml:"nextHop6"`
	Communities      []schema.Community      `yaml:"communities"`
	LargeCommunities []schema.LargeCommunity `yaml:"largeCommunities"`
	LocalPreference  *uint32                 `yaml:"localPreference"`
	BFD              *fileBFD                `yaml:"bfd"`
	NodeSelector     map[string]string       `yaml:"nodeSelector"`
}

// fileBFD is how BFD is asked for; what it leaves out is as kube-vip has it.
type fileBFD struct {
	Transmit   *time.Duration `yaml:"transmit"`
	Receive    *time.Duration `yaml:"receive"`
	Multiplier *uint8         `yaml:"multiplier"`
}

// document returns BFD as the document has it, nil for none.
func (f *fileBFD) document() (*schema.BFD, error) {
	if f == nil {
		return nil, nil
	}
	b := schema.DefaultBFD()
	for _, t := range []struct {
		name string
		from *time.Duration
		to   *uint16
	}{{"transmit", f.Transmit, &b.TXMillis}, {"receive", f.Receive, &b.RXMillis}} {
		if t.from == nil {
			continue
		}
		if *t.from < 10*time.Millisecond || *t.from > time.Minute || *t.from%time.Millisecond != 0 {
			return nil, fmt.Errorf("bfd: %s: %s is not allowed: want whole milliseconds, 10ms to 1m", t.name, *t.from)
		}
		*t.to = uint16(t.from.Milliseconds())
	}
	if f.Multiplier != nil {
		b.Multiplier = *f.Multiplier
	}
	return &b, b.Validate()
}

// ParsePeers reads the YAML form of peers; an unknown key is an error.
func (b *BGP) ParsePeers(data []byte) ([]Peer, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many: want at most %d", len(data), maxFile)
	}
	var file peerFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var peers []Peer
	var errs []error
	for i := range file.Peers {
		p, err := b.filePeer(&file.Peers[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("peer %d %s: %w", i+1, Quote(file.Peers[i].Name), err))
			continue
		}
		peers = append(peers, p)
	}
	return peers, errors.Join(append(errs, uniqueNames(peers))...)
}

func (b *BGP) filePeer(f *filePeer) (Peer, error) {
	p := b.standard()
	p.Address, p.Interface, p.AS, p.Password = f.Address.WithZone(""), f.Interface, f.ASN, f.Password
	if p.Name = f.Name; p.Name == "" {
		p.Name = bgppeer.Peer{Address: p.Address, Link: p.Interface}.Name()
	}
	if f.Address.Zone() != "" {
		p.Interface = f.Address.Zone()
	}
	if f.Port != 0 {
		p.Port = f.Port
	}
	if f.SourceAddress.IsValid() || f.SourceInterface != "" {
		p.SourceAddress, p.SourceInterface = f.SourceAddress, f.SourceInterface
	}
	p.TTL = b.ttl(p.AS, f.Multihop)
	if f.GTSM {
		p.TTL, p.MinTTL = fromNextDoor, fromNextDoor
	}
	p.Communities, p.LargeCommunities, p.LocalPref = f.Communities, f.LargeCommunities, f.LocalPreference
	p.NodeSelector = f.NodeSelector
	var err error
	if p.BFD, err = f.BFD.document(); err != nil {
		return p, err
	}
	return p, errors.Join(f.times(&p.BGPPeer), f.families(&p.BGPPeer, b), f.check(&p.BGPPeer))
}

// times takes over the times that are given, in whole seconds.
func (f *filePeer) times(p *schema.BGPPeer) error {
	for _, t := range []struct {
		name      string
		from      *time.Duration
		to        *uint16
		low, high time.Duration
	}{
		{"holdTime", f.HoldTime, &p.HoldSeconds, 3 * time.Second, hour},
		{"keepalive", f.Keepalive, &p.KeepaliveSeconds, time.Second, hour},
		{"connectRetry", f.ConnectRetry, &p.RetrySeconds, time.Second, hour},
		{"gracefulRestart", f.GracefulRestart, &p.RestartSeconds, 0, hour},
	} {
		if t.from == nil {
			continue
		}
		if *t.from < t.low || *t.from > t.high || *t.from%time.Second != 0 {
			return fmt.Errorf("%s: %s is not allowed: want whole seconds, %s to %s", t.name, *t.from, t.low, t.high)
		}
		*t.to = seconds(*t.from)
	}
	return nil
}

func (f *filePeer) families(p *schema.BGPPeer, b *BGP) error {
	if f.NextHop4.IsValid() || f.NextHop6.IsValid() {
		p.NextHop4, p.NextHop6 = f.NextHop4, f.NextHop6
	}
	if len(f.Families) == 0 {
		mode := b.NextHop
		if f.NextHop4.IsValid() || f.NextHop6.IsValid() {
			mode = bgppeer.NextHopFixed
		}
		setFamilies(p, mode)
		return nil
	}
	for _, name := range f.Families {
		switch name {
		case "ipv4":
			p.IPv4 = true
		case "ipv6":
			p.IPv6 = true
		default:
			return fmt.Errorf("families: %s is not ipv4 or ipv6", Quote(name))
		}
	}
	return nil
}

// check is what the document that it becomes would refuse, in words of the
// file.
func (f *filePeer) check(p *schema.BGPPeer) error {
	switch {
	case f.GTSM && f.Multihop:
		return errors.New("gtsm, multihop: both are given: want one of them")
	case f.BFD != nil && f.Multihop:
		return errors.New("bfd, multihop: both are given: BFD is for peers on the same link")
	case p.AS == 0 && p.Address.IsValid():
		return errors.New("asn: missing")
	case f.SourceAddress.IsValid() && f.SourceInterface != "":
		return errors.New("sourceAddress, sourceInterface: both are given: want one of them")
	case p.Address.Is6() && p.Address.IsLinkLocalUnicast() && p.Interface == "":
		return errors.New("interface: missing: the address is link-local")
	}
	return p.Validate()
}
