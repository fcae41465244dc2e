package plan

import (
	"strconv"
	"strings"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// Annotations of a Service for the attributes of its paths.
const (
	annotationCommunities = "vipod.io/bgp-communities"
	annotationLocalPref   = "vipod.io/bgp-local-preference"
	annotationMED         = "vipod.io/bgp-med"
)

// maxCommunities is how many communities a Service may ask for, of both kinds.
const maxCommunities = 32

// attributes reads the annotations. What is wrong is refused; the rest stays.
func (p *planner) attributes(s *service) *schema.PathAttributes {
	a := &schema.PathAttributes{}
	asked := false
	if text := s.Annotations[annotationCommunities]; text != "" {
		asked = true
		p.communities(s, a, text)
	}
	for _, number := range []struct {
		annotation string
		field      **uint32
	}{{annotationLocalPref, &a.LocalPref}, {annotationMED, &a.MED}} {
		text := s.Annotations[number.annotation]
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			p.refuse(s, ReasonAttributeRefused, "annotation %s %s is not a number of 32 bits; the VIP is announced without it", number.annotation, config.Quote(text))
			continue
		}
		value := uint32(n)
		*number.field, asked = &value, true
	}
	if !asked {
		return nil
	}
	return a
}

func (p *planner) communities(s *service, a *schema.PathAttributes, text string) {
	if len(text) > maxList {
		p.refuse(s, ReasonAttributeRefused, "annotation %s has %d bytes, more than %d; the VIP is announced without it", annotationCommunities, len(text), maxList)
		return
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		var c schema.Community
		var large schema.LargeCommunity
		switch {
		case len(a.Communities)+len(a.LargeCommunities) >= maxCommunities:
			p.refuse(s, ReasonAttributeRefused, "annotation %s has more than %d communities; the VIP is announced with the first", annotationCommunities, maxCommunities)
			return
		case c.UnmarshalText([]byte(item)) == nil:
			a.Communities = append(a.Communities, c)
		case large.UnmarshalText([]byte(item)) == nil:
			a.LargeCommunities = append(a.LargeCommunities, large)
		default:
			p.refuse(s, ReasonAttributeRefused, "annotation %s: %s is not a community such as 65000:100, a large one such as 65000:1:2, or the name of a well-known one; "+
				"the VIP is announced without it", annotationCommunities, config.Quote(item))
		}
	}
}
