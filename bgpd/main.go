// Command bgpd announces virtual IP addresses to routers by BGP. See README.md.
package main

import (
	"os"

	"github.com/vipod/vipod/bgpd/internal/bgpd"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
)

func main() {
	d := bgpd.Daemon{Getenv: os.Getenv}
	p := daemon.Program{Name: ownership.Bgpd, Flags: d.Flags, Run: d.Run, Check: d.Check, Status: bgpd.PrintStatus}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
