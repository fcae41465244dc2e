// Command linkd makes the links that VIPs need and keeps their DHCP leases.
package main

import (
	"os"

	"github.com/vipod/vipod/linkd/internal/linkd"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
)

func main() {
	p := daemon.Program{Name: ownership.Linkd, Run: linkd.Run, Status: linkd.PrintStatus}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
