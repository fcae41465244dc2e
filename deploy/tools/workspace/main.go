// Command workspace keeps two generated files true: go.work, which lists the
// modules of the repository, and each module's deps.txt, which lists what its
// programs link.
//
//	workspace -root . work          compare go.work with the modules
//	workspace -root . deps          compare every deps.txt, check the rules
//	workspace -root . -fix work     write it
//
// It ends with 1 when a file is not what it should be.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	fix := flag.Bool("fix", false, "write the files instead of comparing them")
	flag.Parse()
	if err := run(repository(*root), flag.Arg(0), *fix); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(r repository, what string, fix bool) error {
	modules, err := r.modules()
	if err != nil {
		return err
	}
	switch what {
	case "work":
		return r.work(modules, fix)
	case "deps":
		return r.deps(modules, fix)
	}
	return errors.New("usage: workspace [-root dir] [-fix] work|deps")
}
