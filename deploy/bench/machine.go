package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// commitOf returns the commit of the source tree, with a plus sign when files
// differ from it.
func commitOf(ctx context.Context, root string) string {
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	commit := git("rev-parse", "--short", "HEAD")
	if commit == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		commit += "+"
	}
	return commit
}

// facts are what the numbers depend on.
func (b *bench) facts() [][2]string {
	var name unix.Utsname
	_ = unix.Uname(&name) // fails for a bad pointer only
	facts := [][2]string{
		{"processor", fmt.Sprintf("%s, %d", field("/proc/cpuinfo", "model name"), runtime.NumCPU())},
		{"memory", field("/proc/meminfo", "MemTotal")},
		{"kernel", unix.ByteSliceToString(name.Release[:])},
		{"load before the run", firstWords("/proc/loadavg", 3)},
		{"commit", b.commit},
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"lab", "3 nodes, a client and an API server (kube-apiserver, etcd without fsync) on this one machine; kube-proxy in nftables mode"},
		{"settings", "vip_leaseduration 5, vip_retryperiod 1 where nothing else is said; vip_arp, cp_enable, svc_enable; the other defaults"},
	}
	for _, s := range b.systems()[1:] {
		facts = append(facts, [2]string{s.name(), s.settings()})
	}
	command := fmt.Sprintf("make bench ARGS=\"-only '%s' -trials %d -large %d -churn %v\"", b.only, b.trials, b.large, b.churn)
	return append(facts, [2]string{"how to do it again", "`" + command + "` as root; `make bench ARGS=-list` lists the measurements"})
}

// field returns the value of the first line that begins with the key.
func field(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstWords(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(data))
	return strings.Join(words[:min(n, len(words))], " ")
}
