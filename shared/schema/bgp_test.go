package schema_test

import (
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/schema"
)

func TestCommunitiesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"65000:100": "65000:100", "no-export": "65535:65281", "Graceful-Shutdown": "65535:0", "0:0": "0:0",
	} {
		var c schema.Community
		if err := c.UnmarshalText([]byte(text)); err != nil || c.String() != want {
			t.Errorf("%s: %s, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "1", "65536:1", "1:65536", "1:2:3", "-1:1", "a:b", "no"} {
		if new(schema.Community).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	var large schema.LargeCommunity
	if err := large.UnmarshalText([]byte("4294967295:0:7")); err != nil || large.String() != "4294967295:0:7" {
		t.Errorf("%s, %v", large, err)
	}
	for _, text := range []string{"", "1:2", "4294967296:0:0", "1:2:3:4"} {
		if new(schema.LargeCommunity).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestPeersThatAreRefused(t *testing.T) {
	if p := fullPeer(); p.Validate() != nil {
		t.Fatal(p.Validate())
	}
	for want, change := range map[string]func(*schema.BGPPeer){
		"peer name":       func(p *schema.BGPPeer) { p.Name = "../x" },
		"interface":       func(p *schema.BGPPeer) { p.Interface = "a/b" },
		"port":            func(p *schema.BGPPeer) { p.Port = 0 },
		"holdSeconds":     func(p *schema.BGPPeer) { p.HoldSeconds = 2 },
		"restartSeconds":  func(p *schema.BGPPeer) { p.RestartSeconds = 4096 },
		"bfd: 9 and":      func(p *schema.BGPPeer) { p.BFD = &schema.BFD{TXMillis: 9, RXMillis: 300, Multiplier: 3} },
		"multiplier":      func(p *schema.BGPPeer) { p.BFD = &schema.BFD{TXMillis: 300, RXMillis: 300} },
		"of the other":    func(p *schema.BGPPeer) { p.NextHop4 = p.NextHop6 },
		"SourceInterface": func(p *schema.BGPPeer) { p.SourceInterface = "SourceInterface.long" },
	} {
		p := fullPeer()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
