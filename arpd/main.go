// Command arpd tells the neighbors of this node which virtual IP addresses it
// holds, by gratuitous ARP and unsolicited neighbor advertisements, and
// watches for others who claim them. See README.md.
package main

import (
	"os"

	"github.com/vipod/vipod/arpd/internal/arpd"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
)

func main() {
	p := daemon.Program{Name: ownership.Arpd, Run: arpd.Run, Status: arpd.PrintStatus}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
