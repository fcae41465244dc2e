// Command bench measures in a lab what vipod does for its clients and what it
// costs, holds the numbers against their goals, and writes RESULTS.md and the
// rows behind it. Other implementations that it is given the programs of are
// measured by the same code in the same run.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	root, bin, out string
	only           *regexp.Regexp
	trials, large  int
	scale          float64
	churn          time.Duration
	stormTime      time.Duration
	profiles       string
	peers          map[string]string
	list           bool
}

func main() {
	opts := parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, opts); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() options {
	o := options{peers: map[string]string{}}
	flag.StringVar(&o.root, "root", "..", "top of the source tree")
	flag.StringVar(&o.bin, "bin", "", "folder of the programs (default: bin in root)")
	flag.StringVar(&o.out, "out", "", "folder for RESULTS.md and raw/rows.csv (default: deploy/bench in root)")
	flag.Func("only", "measure only what matches this regular expression; other rows stay", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	flag.IntVar(&o.trials, "trials", 20, "trials of each measurement")
	flag.IntVar(&o.large, "large", 3, "trials of measurements with hundreds of Services and more")
	flag.Float64Var(&o.scale, "scale", 1, "multiplies every number of Services above 10, to try the measurements on a busy machine")
	flag.DurationVar(&o.churn, "churn", 3*time.Minute, "how long Services come and go while memory is watched")
	flag.DurationVar(&o.stormTime, "storm", 5*time.Minute, "how long Services are made and deleted as fast as the API server takes it")
	flag.StringVar(&o.profiles, "profiles", "", "folder for processor profiles of the daemons while Services are created")
	for _, p := range peers {
		flag.Func("peer-"+p.name, "measure "+p.name+" as well: its `program`", func(path string) error {
			o.peers[p.name] = path
			return nil
		})
	}
	flag.BoolVar(&o.list, "list", false, "list the measurements and end")
	flag.Parse()
	if o.only == nil {
		o.only = regexp.MustCompile(".")
	}
	o.bin = cmp.Or(o.bin, filepath.Join(o.root, "bin"))
	o.out = cmp.Or(o.out, filepath.Join(o.root, "deploy", "bench"))
	return o
}
