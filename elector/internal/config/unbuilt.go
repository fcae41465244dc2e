package config

import (
	"fmt"
	"strconv"
)

// off is the switch of a mode that this build does not have: it may say that
// the mode is off, and nothing else.
func off(mode string, alsoOff ...string) value {
	return value{allowed: "off: this build has no " + mode, set: func(_ *raw, text string) error {
		for _, t := range append(alsoOff, "", "0") {
			if text == t {
				return nil
			}
		}
		if b, err := strconv.ParseBool(text); err == nil && !b {
			return nil
		}
		return fmt.Errorf("%s asks for what this build does not have, %s: remove the setting", Quote(text), mode)
	}}
}

// offBool is off for a setting whose flag may stand without a value.
func offBool(mode string) value {
	v := off(mode)
	v.allowed, v.boolean = "false: this build has no "+mode, true
	return v
}

// idle is a setting that is accepted and changes nothing, for the reason
// given: it belongs to a mode that cannot be switched on, or vipod always
// does what it asks for.
func idle(reason string) value {
	return value{allowed: "anything", noEffect: reason, set: func(*raw, string) error { return nil }}
}

// idleBool is idle for a setting whose flag may stand without a value.
func idleBool(reason string) value {
	v := idle(reason)
	v.allowed, v.boolean = "true or false", true
	v.set = func(_ *raw, text string) error {
		_, err := parseBool(text)
		return err
	}
	return v
}

// Reasons for which settings change nothing.
const (
	noZebra     = "no effect without BGP through FRR, which this build does not have"
	alwaysNft   = "no effect: egress is always nftables'"
	neverInside = "no effect: what stays inside of the cluster keeps its source unless the Service's annotation vipod.io/egress-internal asks otherwise"
	alwaysClean = "no effect: egressd adopts what it finds and removes what no Service wants"
	alwaysSo    = "no effect: vipod always does this"
	alwaysElect = "no effect: vipod always elects, each Service on its own through the Leases of the nodes"
	dead        = "no effect, in kube-vip neither"
)
