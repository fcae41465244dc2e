// Command egressd lets pods leave with their Service's VIP, guards VIPs'
// ports, and spreads the control plane's connections.
package main

import (
	"os"

	"github.com/vipod/vipod/egressd/internal/egressd"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
)

func main() {
	d := egressd.Daemon{Getenv: os.Getenv}
	p := daemon.Program{Name: ownership.Egressd, Flags: d.Flags, Check: d.Check, Run: d.Run, Status: egressd.PrintStatus}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
