package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// snapshot is everything that is not to be touched, and the names of all that
// vipod has, by what it is.
type snapshot map[string]string

// take describes the kernels, the state directories and the API objects. What
// belongs to the control plane's VIP is left out: that may be on any node.
func (w *World) take(ctx context.Context) (snapshot, error) {
	s := snapshot{}
	for _, node := range w.Nodes() {
		if err := w.takeNode(ctx, node, s); err != nil {
			return nil, fmt.Errorf("describing %s: %w", node, err)
		}
		if err := takeFiles(w.StateDir(node), node, s); err != nil {
			return nil, fmt.Errorf("describing the files of %s: %w", node, err)
		}
	}
	return s, w.takeObjects(ctx, s)
}

func (w *World) takeNode(ctx context.Context, node string, s snapshot) error {
	list, err := w.addresses(node)
	if err != nil {
		return err
	}
	var addrs []string
	for _, a := range list {
		if !slices.Contains(lab.ControlPlaneVIP().Slice(), a.Prefix.Addr()) {
			addrs = append(addrs, fmt.Sprintf("%d %s protocol %d flags %#x", a.LinkIndex, a.Prefix, a.Protocol, a.Flags))
		}
	}
	slices.Sort(addrs)
	s[node+" addresses"] = strings.Join(addrs, "\n")
	for _, command := range []string{
		"ip -d link", "ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all", "nft list tables",
	} {
		out, err := w.Exec(ctx, node, strings.Fields(command)...)
		if err != nil {
			return err
		}
		s[node+" "+command] = lines(string(out), command != "ip -d link")
	}
	tables := s[node+" nft list tables"]
	delete(s, node+" nft list tables")
	for table := range strings.Lines(tables) {
		table = strings.TrimSpace(table)
		if strings.Contains(table, "kube-proxy") { // changed by kube-proxy
			continue
		}
		out, err := w.Exec(ctx, node, append([]string{"nft", "-s", "list"}, strings.Fields(table)...)...)
		if err != nil && strings.Contains(err.Error(), "No such file or directory") && strings.Contains(table, "vipod") {
			continue // it has gone since
		}
		if err != nil {
			return err
		}
		if !strings.Contains(table, "vipod") {
			s[node+" "+table] = string(out)
			continue
		}
		// It is there while the node has any VIP, and changes with every
		// renewal: only the Service's VIPs are named.
		if named := w.named(string(out)); len(named) > 0 {
			s[node+" fence"] = strings.Join(named, " ")
		}
	}
	return nil
}

// named returns which of the Service's addresses a text names.
func (w *World) named(text string) (list []string) {
	for _, addr := range w.VIP.Slice() {
		if strings.Contains(text, addr.String()) {
			list = append(list, addr.String())
		}
	}
	return list
}

// lines leaves out what belongs to the control plane's VIP.
func lines(text string, sorted bool) string {
	var list []string
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(lab.ControlPlaneVIP().Slice(), func(a netip.Addr) bool {
			return slices.Contains(strings.Fields(line), a.String())
		}) {
			list = append(list, strings.TrimRight(line, " \n"))
		}
	}
	if sorted {
		slices.Sort(list)
	}
	return strings.Join(list, "\n")
}

// takeFiles names every file with its owner and mode.
func takeFiles(dir, node string, s snapshot) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(e.Name(), ".") || e.Name() == "_control-plane.json" {
			return nil //nolint:nilerr // it was being written
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			s[node+" "+strings.TrimPrefix(path, dir)] = fmt.Sprintf("%v %d:%d", info.Mode(), stat.Uid, stat.Gid)
		}
		return nil
	})
}

// takeObjects describes the Services and Leases: others' as they are, of
// vipod's the names, and whether they claim the Service's addresses.
func (w *World) takeObjects(ctx context.Context, s snapshot) error {
	services, err := w.Client().CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	for _, o := range services.Items {
		data, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("describing Service %s: %w", o.Name, err)
		}
		s["Service "+o.Namespace+"/"+o.Name] = string(data)
	}
	leases, err := w.Client().CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Leases: %w", err)
	}
	for _, o := range leases.Items {
		data, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("describing Lease %s: %w", o.Name, err)
		}
		text := string(data)
		if strings.HasPrefix(o.Name, "vipod-") || o.Name == "plndr-cp-lock" || strings.HasPrefix(o.Name, "apiserver-") {
			text = strings.Join(w.named(text), " ")
		}
		s["Lease "+o.Namespace+"/"+o.Name] = text
	}
	return nil
}

// differences says what is not the same in two snapshots.
func (s snapshot) differences(after snapshot) (list []string) {
	keys := maps.Clone(s)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if s[key] != after[key] {
			list = append(list, fmt.Sprintf("%s: %s", key, difference(s[key], after[key])))
		}
	}
	return list
}

// difference shows the lines that only one of two texts has.
func difference(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var list []string
	for _, line := range was {
		if !slices.Contains(is, line) {
			list = append(list, "- "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			list = append(list, "+ "+line)
		}
	}
	return strings.Join(list, "; ")
}
