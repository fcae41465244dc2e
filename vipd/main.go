// Command vipd puts VIPs into the kernel and keeps the fence.
package main

import (
	"os"

	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/vipd/internal/vipd"
)

func main() {
	p := daemon.Program{Name: ownership.Vipd, Run: vipd.Run, Status: vipd.PrintStatus}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
