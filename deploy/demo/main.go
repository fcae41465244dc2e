// Command demo shows vipod at work on one machine: three nodes, a real API
// server, a Service and the control plane at virtual IPs, and what a client
// notices when the node that owns them is stopped, cut off, or loses all its
// daemons.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

func main() {
	root := flag.String("root", "..", "top of the source tree, with the programs in bin")
	keep := flag.Bool("keep", false, "leave the lab running; bin/lab down -name demo ends it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *root, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, root string, keep bool) (err error) {
	fmt.Fprintln(out, "Starting three nodes and an API server: about 20 seconds.")
	c, err := trial.Start(ctx, trial.Options{Name: "demo", Root: root, Log: lab.ProgressLogger(out)})
	if err != nil {
		return err
	}
	defer func() {
		if keep && err == nil {
			fmt.Fprintln(out, "\nThe lab goes on: try bin/lab status -name demo; bin/lab down -name demo ends it.")
			return
		}
		err = errors.Join(err, c.Down())
	}()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	d := demo{Cluster: c, out: out}
	if err := d.show(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nNow the client asks each address a thousand times a second while its owner suffers:")
	for _, f := range faults {
		if err := d.try(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return d.table()
}
