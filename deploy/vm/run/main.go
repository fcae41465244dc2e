// Run runs the tests of a Go package on Debian's kernel in a virtual machine:
//
//	go run ./vm/run [-run PATTERN] [-modules a,b] [-v] DIRECTORY
//
// It is called in deploy/ and exits as the tests do.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/vipod/vipod/deploy/vm"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		code = 1
	}
	os.Exit(code)
}

func run() (int, error) {
	pattern := flag.String("run", ".", "which tests, as for go test")
	modules := flag.String("modules", "veth,dummy", "kernel modules to load")
	verbose := flag.Bool("v", false, "print every test")
	cache := flag.String("cache", "../.cache/vm", "where the kernel is kept")
	timeout := flag.Duration("timeout", 5*time.Minute, "of the machine")
	flag.Parse()
	if flag.NArg() != 1 {
		return 0, fmt.Errorf("want the directory of a package, have %q", flag.Args())
	}
	if err := vm.Missing(); err != nil {
		return 0, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	kernel, err := vm.GetKernel(ctx, *cache)
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(os.Stderr, "on kernel", kernel.Version)
	return vm.Run(ctx, kernel, vm.Test{
		Package: flag.Arg(0), Modules: strings.Split(*modules, ","), Timeout: *timeout,
		Args: []string{"-test.run=" + *pattern, fmt.Sprintf("-test.v=%t", *verbose)},
		Env:  []string{"VIPOD_REQUIRE_NETNS=1"},
	}, os.Stdout)
}
