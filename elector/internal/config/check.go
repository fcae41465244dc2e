package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// check holds the settings against each other.
func (p *parser) check() error {
	return errors.Join(p.checkFeatures(), p.checkAddresses(), p.checkTimes(), p.checkAnnounce(), p.checkMode(), p.checkDDNS(), p.checkMirror())
}

// isGiven says whether somebody set the setting, to whatever.
func (p *parser) isGiven(name string) bool {
	_, ok := p.given[name]
	return ok
}

func (p *parser) checkFeatures() error {
	var errs []error
	if !p.ControlPlane.Enabled && !p.Services.Enabled {
		errs = append(errs, errors.New("cp_enable, svc_enable: no features: want at least one of them true"))
	}
	return errors.Join(errs...)
}

// checkAddresses also merges the old name of address into the new one.
func (p *parser) checkAddresses() error {
	cp := &p.ControlPlane
	switch {
	case len(cp.Addresses) == 0 && len(cp.Names) == 0:
		cp.Addresses = p.legacyAddress
	case len(p.legacyAddress) > 0 && !slices.Equal(cp.Addresses, p.legacyAddress):
		return errors.New("address, vip_address: both are given and they differ: want one of them")
	}
	if cp.Enabled && len(cp.Addresses) == 0 && len(cp.Names) == 0 && !p.isGiven("address") && !p.isGiven("vip_address") {
		return errors.New("address: missing: cp_enable needs the address of the control plane's VIP")
	}
	return nil
}

// checkDDNS comes when the mode is known.
func (p *parser) checkDDNS() error {
	cp := &p.ControlPlane
	switch {
	case !cp.DDNS:
	case len(cp.Names) != 1 || len(cp.Addresses) > 0:
		return errors.New("vip_ddns: true is not allowed: want one host name and nothing else in address, by which DHCP is asked")
	case p.Mode.Routes():
		return fmt.Errorf("vip_ddns: true is not allowed: an address from DHCP is of one link, and with %s routers bring what is for a VIP", p.Mode)
	}
	return nil
}

func (p *parser) checkTimes() error {
	var errs []error
	d, r, deadline := p.LeaseDuration, p.RetryPeriod, p.renewDeadline
	if d%time.Second != 0 {
		errs = append(errs, fmt.Errorf("vip_leaseduration: %s is not allowed: want whole seconds, since Leases store no less", d))
	}
	if r > d/2 {
		errs = append(errs, fmt.Errorf("vip_retryperiod: %s is not allowed: want at most %s, half of vip_leaseduration, "+
			"so that one lost renewal does not cost the VIPs", r, d/2))
	}
	if p.isGiven("vip_renewdeadline") && deadline != 0 && (deadline <= r || deadline >= d) {
		errs = append(errs, fmt.Errorf("vip_renewdeadline: %s is not allowed: want more than vip_retryperiod (%s) and less than vip_leaseduration (%s)", deadline, r, d))
	}
	return errors.Join(errs...)
}

// checkAnnounce also takes the interval from kube-vip's name for it.
func (p *parser) checkAnnounce() error {
	if !p.isGiven("vip_arpRate") {
		return nil
	}
	if p.isGiven("vipod_announce_interval") {
		return errors.New("vip_arpRate, vipod_announce_interval: both are given: want one of them")
	}
	p.AnnounceInterval = p.arpRate
	return nil
}

// checkMirror refuses what cannot be told in advance: with auto every VIP may
// be on another link.
func (p *parser) checkMirror() error {
	from := cmp.Or(p.ServicesInterface, p.Interface)
	switch {
	case p.Mirror == "":
		return nil
	case from == Auto:
		return errors.New("mirror_dest_interface: not with auto as the interface of Services: want vip_servicesinterface to name the one whose traffic is copied")
	case from == p.Mirror:
		return fmt.Errorf("mirror_dest_interface: %s is the interface of Services itself: want another one", Quote(from))
	}
	return nil
}

// namespaceFile is where a pod finds its own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// complete fills in what follows from the node and from other settings.
func (p *parser) complete() error {
	var errs []error
	if p.NodeName == "" {
		host, err := p.sources.Hostname()
		if err == nil && !isSubdomain(strings.ToLower(host)) {
			err = fmt.Errorf("the host's name %s is not one of a Node", Quote(host))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("vip_nodename: missing: %w", err))
		}
		p.NodeName = host
	}
	p.NodeName = strings.ToLower(p.NodeName)
	if p.Namespace == "" {
		ns, err := p.podNamespace()
		errs = append(errs, err)
		p.Namespace = ns
	}
	cp := &p.ControlPlane
	cp.LeaseNamespace, cp.LeaseName = p.Namespace, p.leaseName
	if ns, name, ok := strings.Cut(p.leaseName, "/"); ok {
		cp.LeaseNamespace, cp.LeaseName = ns, name
	}
	return errors.Join(errs...)
}

// podNamespace returns the pod's namespace, and outside of a pod kube-vip's
// default.
func (p *parser) podNamespace() (string, error) {
	data, err := p.sources.ReadFile(namespaceFile)
	switch ns := strings.TrimSpace(string(data)); {
	case errors.Is(err, fs.ErrNotExist):
		return "kube-system", nil
	case err != nil:
		return "", fmt.Errorf("cp_namespace: missing, and the pod's cannot be read: %w", err)
	case !isLabel(ns):
		return "", fmt.Errorf("cp_namespace: missing, and %s holds %s", namespaceFile, Quote(ns))
	default:
		return ns, nil
	}
}
