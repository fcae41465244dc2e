package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/vipod/vipod/deploy/bench/result"
)

// bench is one run.
type bench struct {
	options
	print  io.Writer
	book   *result.Book
	commit string
	world  *world // the lab that is up, nil for none
	labs   int    // that were up before
}

// run makes every measurement that is asked for and writes the results, also
// those of a run that was broken off.
func run(ctx context.Context, out io.Writer, o options) (err error) {
	if o.list {
		for _, s := range scenarios {
			fmt.Fprintf(out, "%-10s %s\n", s.name, s.what)
		}
		return nil
	}
	b := &bench{options: o, print: out, commit: commitOf(ctx, o.root)}
	if b.book, err = result.Open(filepath.Join(o.out, "raw", "rows.csv")); err != nil {
		return err
	}
	facts := b.facts()
	begin := time.Now()
	measured := b.measure(ctx)
	b.say("measured for %v", time.Since(begin).Round(time.Second))
	return errors.Join(measured, b.leave(), b.report(facts))
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.print, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// measure makes the measurements of one system after the other.
func (b *bench) measure(ctx context.Context) error {
	for _, sys := range b.systems() {
		for _, s := range scenarios {
			if !b.only.MatchString(s.name) || s.alone && sys.name() != result.Subject {
				continue
			}
			if _, can := sys.(creator); s.creates && !can {
				continue
			}
			m := &measuring{bench: b, scenario: s, sys: sys}
			if err := m.run(ctx); err != nil {
				return fmt.Errorf("measuring %s of %s: %w", s.name, sys.name(), err)
			}
		}
	}
	return nil
}

// report prints the results and writes them.
func (b *bench) report(facts [][2]string) error {
	r := result.Report{
		Facts: facts, Rows: b.book.Rows(), Verdicts: result.Judge(result.Goals(), b.book.Rows()),
	}
	for _, s := range scenarios {
		r.Meanings = append(r.Meanings, [2]string{s.name, s.what})
	}
	if err := r.Print(b.print); err != nil {
		return fmt.Errorf("printing results: %w", err)
	}
	path := filepath.Join(b.out, "RESULTS.md")
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	if err := errors.Join(r.Markdown(file), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	b.say("wrote %s", path)
	return nil
}
