package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

const home = "github.com/vipod/vipod/"

// foreign are the modules that only link or run other people's programs, for
// the lab and for the checks; no image holds them.
var foreign = []string{"deploy/lab/cluster", "deploy/tools"}

// rule says which modules may link the packages below a path.
type rule struct {
	below string
	only  []string
}

// rules keep the privilege of an image small: what a daemon does not link it
// cannot be made to run. shared may link a library of the kernel only in the
// packages that are for the daemons that may.
var rules = []rule{
	{"k8s.io/", []string{"elector", "deploy"}},
	{"sigs.k8s.io/", []string{"elector", "deploy"}},
	{"github.com/google/nftables", []string{"vipd", "egressd", "deploy"}},
	{"github.com/vishvananda/netlink", []string{"vipd", "linkd", "arpd", "bgpd", "egressd", "shared", "deploy"}},
	{"github.com/mdlayher/netlink", []string{"vipd", "arpd", "egressd", "shared", "deploy"}},
	{"github.com/osrg/gobgp", nil},
	{"github.com/insomniacslk/dhcp", []string{"linkd"}},
}

// deps settles every module's deps.txt and checks the rules.
func (r repository) deps(modules []string, fix bool) error {
	var errs []error
	for _, m := range modules {
		if slices.Contains(foreign, m) {
			continue
		}
		list, err := r.linked(m)
		if err != nil {
			return err
		}
		errs = append(errs, violations(m, list)...)
		content := strings.Join(list, "\n") + "\n"
		errs = append(errs, r.settle(path.Join(m, "deps.txt"), content, "make fix-deps, and look at the change", fix))
	}
	return errors.Join(errs...)
}

// linked returns the packages outside the standard library that the module's
// programs link, sorted; those of all its packages if it has no program.
func (r repository) linked(module string) ([]string, error) {
	const ofProgram = `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`
	programs, err := r.goList(module, "-f", ofProgram, "./...")
	if err != nil {
		return nil, err
	}
	if len(programs) == 0 {
		programs = []string{"./..."}
	}
	const outside = `{{if not .Standard}}{{.ImportPath}}{{end}}`
	return r.goList(module, append([]string{"-deps", "-f", outside}, programs...)...)
}

func (r repository) goList(module string, args ...string) ([]string, error) {
	env := []string{"GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}
	out, err := r.output(module, env, append([]string{"go", "list"}, args...)...)
	if err != nil {
		return nil, err
	}
	list := strings.Fields(out)
	slices.Sort(list)
	return slices.Compact(list), nil
}

// violations returns an error for each package that the module must not link.
func violations(module string, linked []string) []error {
	var errs []error
	for _, pkg := range linked {
		if own, ok := strings.CutPrefix(pkg, home); ok && !mayLinkOwn(module, own) {
			errs = append(errs, fmt.Errorf("%s links %s: only shared is for more than one module", module, pkg))
		}
		for _, rule := range rules {
			if strings.HasPrefix(pkg+"/", strings.TrimSuffix(rule.below, "/")+"/") && !slices.Contains(rule.only, module) {
				errs = append(errs, fmt.Errorf("%s links %s, which is for %v", module, pkg, rule.only))
			}
		}
	}
	return errs
}

// mayLinkOwn says whether a package of this repository may be linked: those of
// the module itself and of shared.
func mayLinkOwn(module, pkg string) bool {
	return pkg == module || strings.HasPrefix(pkg, module+"/") || strings.HasPrefix(pkg, "shared/")
}
