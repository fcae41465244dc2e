// Command elector decides which node serves which virtual IP, and writes the
// documents that the other daemons of the pod act on.
package main

import (
	"os"

	"github.com/vipod/vipod/elector/internal/elector"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
)

func main() {
	e := elector.Elector{LookupEnv: os.LookupEnv, Environ: os.Environ, Stderr: os.Stderr}
	p := daemon.Program{
		Name: ownership.Elector, Flags: e.Flags, Run: e.Run, Check: e.Check, Status: e.Status,
		GCPercent: 50, // its heap grows with the number of Services
	}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
