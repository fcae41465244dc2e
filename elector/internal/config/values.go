package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// value is one kind of value: what is allowed, and how its text gets into
// the raw configuration.
type value struct {
	// allowed completes the sentence "want ...".
	allowed string
	// boolean flags may stand without a value.
	boolean bool
	// keepsEmpty: an empty text is a value and not the absence of one.
	keepsEmpty bool
	// set reports a text that is not allowed as errNotAllowed, and what needs
	// more words as an error of its own.
	set func(*raw, string) error
	// optional: without a value the field stays as it is.
	optional bool
	// noEffect says why the setting changes nothing, where it does not.
	noEffect string
}

// errNotAllowed stands for the sentence that says what is allowed.
var errNotAllowed = errors.New("not allowed")

// errItem is an item of a list that is not allowed: the sentence is about it
// and not about the whole list.
type errItem string

func (e errItem) Error() string { return string(e) + " is not allowed" }

// maxQuoted is how much of a value an error repeats, in runes.
const maxQuoted = 100

// Quote makes text of unknown origin safe and short to print.
func Quote(text string) string {
	if len(text) > maxQuoted {
		if r := []rune(text[:min(len(text), 4*maxQuoted)]); len(r) > maxQuoted {
			text = string(r[:maxQuoted]) + "..."
		}
	}
	return strconv.Quote(text)
}

// into makes a value of a parser and the field that it goes to.
func into[T any](allowed string, field func(*raw) *T, parse func(string) (T, error)) value {
	return value{allowed: allowed, set: func(r *raw, text string) error {
		v, err := parse(text)
		if err != nil {
			return err
		}
		*field(r) = v
		return nil
	}}
}

// optional makes v a setting whose absence is not a value.
func optional(v value) value {
	v.optional = true
	return v
}

func boolean(field func(*raw) *bool) value {
	v := into("true or false", field, parseBool)
	v.boolean = true
	return v
}

func parseBool(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, errNotAllowed
	}
	return b, nil
}

func integer(field func(*raw) *int, low, high int) value {
	return into(fmt.Sprintf("a number, %d to %d", low, high), field, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, errNotAllowed
		}
		return n, nil
	})
}

func port(field func(*raw) *uint16) value {
	return into("a port, 1 to 65535", field, func(text string) (uint16, error) {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return 0, errNotAllowed
		}
		return uint16(n), nil
	})
}

// duration takes a bare number in the given unit, or a Go duration, up to an
// hour.
func duration(field func(*raw) *time.Duration, unit, low time.Duration) value {
	const high = hour
	name := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[unit]
	allowed := fmt.Sprintf("%s, or a duration such as 1500ms, %s to %s", name, low, high)
	return into(allowed, field, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if n, numErr := strconv.ParseInt(text, 10, 64); numErr == nil && n >= 0 && n <= math.MaxInt64/int64(unit) {
			d, err = time.Duration(n)*unit, nil
		}
		if err != nil || d < low || d > high {
			return 0, errNotAllowed
		}
		return d, nil
	})
}

func logLevel(field func(*raw) *slog.Level) value {
	return into("debug, info, warn, error, or a number of log/slog (-4, 0, 4, 8)", field,
		func(text string) (slog.Level, error) {
			if n, err := strconv.ParseInt(text, 10, 8); err == nil {
				return slog.Level(n), nil
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(text)); err != nil {
				return 0, errNotAllowed
			}
			return l, nil
		})
}

// matching is a text that a function accepts; empty is always accepted.
func matching(allowed string, field func(*raw) *string, ok func(string) bool) value {
	return into(allowed, field, func(text string) (string, error) {
		if text != "" && !ok(text) {
			return "", errNotAllowed
		}
		return text, nil
	})
}

func path(field func(*raw) *string) value {
	return matching("a path", field, func(s string) bool { return !strings.ContainsRune(s, 0) })
}

func link(field func(*raw) *string, empty string) value {
	allowed := "the name of an interface, auto (the one whose subnet holds the VIP), or empty (" + empty + ")"
	return matching(allowed, field, func(s string) bool { return schema.ValidateInterface(s) == nil })
}

func instance(field func(*raw) *string) value {
	return matching("up to 243 letters, digits, dots, dashes and underscores", field, func(s string) bool {
		return len(s) <= 243 && !strings.ContainsFunc(s, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
		})
	})
}

func nodeName(field func(*raw) *string) value {
	v := matching("the name of a Node", field, func(s string) bool { return isSubdomain(strings.ToLower(s)) })
	return v
}

func namespace(field func(*raw) *string, empty string) value {
	return matching("the name of a namespace, or empty ("+empty+")", field, isLabel)
}

func leaseName(field func(*raw) *string) value {
	return matching("the name of a Lease, or its namespace and name with a slash between", field, func(s string) bool {
		ns, name, slash := strings.Cut(s, "/")
		return slash && isLabel(ns) && isSubdomain(name) || !slash && isSubdomain(s)
	})
}

func listen(field func(*raw) *string) value {
	v := matching("host:port or :port to listen on, or empty (nowhere)", field, func(s string) bool {
		_, port, err := net.SplitHostPort(s)
		_, portErr := strconv.ParseUint(port, 10, 16)
		return err == nil && portErr == nil
	})
	v.keepsEmpty = true
	return v
}

func class(field func(*raw) *string) value {
	v := matching("a loadBalancerClass, or empty", field, func(s string) bool {
		return len(s) <= 316 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
	})
	v.keepsEmpty = true
	return v
}

// address of the API server, as kubernetes_addr takes it.
func apiServer(field func(*raw) *string) value {
	return matching("a URL, a host, or a host and port", field, func(s string) bool {
		if !strings.Contains(s, "://") {
			s = "https://" + s
		}
		return isURL(s)
	})
}

func webURL(field func(*raw) *string) value {
	return matching("a URL that begins with http:// or https://", field, isURL)
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

func subnet(field func(*raw) *Subnet) value {
	return into("prefix lengths for IPv4 and IPv6 with a comma between (32,128), one of the two, or auto", field, parseSubnet)
}

// parseSubnet reads kube-vip's vip_subnet. A single length over 32 can only
// be one for IPv6.
func parseSubnet(text string) (Subnet, error) {
	s := Subnet{IPv4: 32, IPv6: 128}
	if text == "" {
		return s, nil
	}
	if text == Auto {
		s.Auto = true
		return s, nil
	}
	first, second, both := strings.Cut(text, ",")
	a, errA := strconv.Atoi(strings.TrimSpace(first))
	b, errB := 128, error(nil)
	if both {
		b, errB = strconv.Atoi(strings.TrimSpace(second))
	} else if a > 32 {
		a, b = 32, a
	}
	if errA != nil || errB != nil || a < 1 || a > 32 || b < 1 || b > 128 {
		return Subnet{}, errNotAllowed
	}
	s.IPv4, s.IPv6 = a, b
	return s, nil
}

// maxAddresses is how many addresses the control plane's VIP may have.
const maxAddresses = 16

func addresses(field func(*raw) *[]netip.Addr) value {
	return into("IP addresses with commas between", field, func(text string) ([]netip.Addr, error) {
		var all []netip.Addr
		for _, item := range split(text) {
			a, err := parseAddress(item)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		if len(all) > maxAddresses {
			return nil, fmt.Errorf("%d addresses are too many: want at most %d", len(all), maxAddresses)
		}
		return all, nil
	})
}

func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil && strings.Contains(text, "/"):
		return a, fmt.Errorf("%s has a prefix length: want the address alone, and the length in vip_subnet", Quote(text))
	case err != nil && isSubdomain(strings.ToLower(strings.TrimSuffix(text, "."))) && strings.ContainsFunc(text, isLetter):
		return a, fmt.Errorf("%s is a host name: want it in the setting address", Quote(text))
	case err != nil:
		return a, errItem(text)
	case a.IsUnspecified():
		return a, fmt.Errorf("%s asks for DHCP, and the control plane needs a fixed address", Quote(text))
	case a.Zone() != "" || a.Is4In6() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast():
		return a, fmt.Errorf("%s cannot be a VIP: it has a zone, or is IPv4-mapped, multicast, loopback or link-local", Quote(text))
	}
	return a, nil
}

func prefixes(field func(*raw) *[]netip.Prefix) value {
	return into("ranges such as 10.96.0.0/12 with commas between, or auto", field, func(text string) ([]netip.Prefix, error) {
		if text == Auto {
			return nil, nil
		}
		var all []netip.Prefix
		for _, item := range split(text) {
			p, err := netip.ParsePrefix(item)
			if err != nil || p.Addr().Is4In6() {
				return nil, errItem(item)
			}
			all = append(all, p.Masked())
		}
		return all, nil
	})
}

// components takes names of daemons, and returns them with elector in the
// order of the ownership table.
func components(field func(*raw) *[]string) value {
	var known []string
	for _, d := range ownership.Table() {
		known = append(known, d.Name)
	}
	return into("names of daemons with commas between: "+strings.Join(known, ", "), field, func(text string) ([]string, error) {
		asked := split(text)
		if i := slices.IndexFunc(asked, func(s string) bool { return !slices.Contains(known, s) }); i >= 0 {
			return nil, errItem(asked[i])
		}
		return slices.DeleteFunc(slices.Clone(known), func(s string) bool {
			return s != ownership.Elector && !slices.Contains(asked, s)
		}), nil
	})
}

// split returns the items of a comma list, trimmed, without empty ones.
func split(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
