// Metricsd is the pod's one Prometheus endpoint and its status page.
package main

import (
	"flag"
	"os"

	"github.com/vipod/vipod/metricsd/internal/metricsd"
	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
)

func main() {
	var options metricsd.Options
	program := daemon.Program{
		Name: ownership.Metricsd,
		Flags: func(fs *flag.FlagSet) {
			fs.Var(&options.Listen, "listen",
				"address of the endpoint instead of the node's setting, such as :2112; empty for none")
		},
		Run:    options.Run,
		Check:  options.Check,
		Status: pod.PrintAnswer,
	}
	os.Exit(program.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
