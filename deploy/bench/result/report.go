package result

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what is told about a run.
type Report struct {
	// Facts are what the numbers depend on, as name and value: the machine,
	// the commit, the settings.
	Facts [][2]string
	// Meanings explain measurements in one paragraph each, in their order.
	Meanings [][2]string
	Verdicts []Verdict
	Rows     []Row
}

// Print prints the goals and all series for a person at a terminal.
func (r Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGOAL\tLIMIT\tP50\tP99\tMAX\tTRIALS\t")
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Text, v.limit(),
			Number(v.Series.P50()), Number(v.Series.P99()), Number(v.Series.Max()), v.Series.trials(), v.word())
	}
	fmt.Fprintln(w, "\nSYSTEM\tMEASUREMENT\tCASE\tMETRIC\tP50\tP99\tMAX\tUNIT\tTRIALS")
	for _, s := range Group(r.Rows) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.System, s.Measurement, s.Case, s.Metric,
			Number(s.P50()), Number(s.P99()), Number(s.Max()), s.Unit, s.trials())
	}
	for _, row := range r.Rows {
		if row.Err != "" {
			fmt.Fprintf(w, "failed: %s %s %s trial %d: %s\n", row.System, row.Measurement, row.Case, row.Trial, row.Err)
		}
	}
	return w.Flush()
}

func (v Verdict) word() string {
	switch {
	case !v.Measured && v.Series.Failed == 0:
		return "not measured"
	case v.Met:
		return "met"
	}
	return "MISSED"
}

func (v Verdict) limit() string {
	sign := "≤"
	if v.Least {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s %s %s", v.Stat, sign, Number(v.Limit), v.Series.Unit)
}

// trials returns how many values there are and how many trials failed.
func (s Series) trials() string {
	if s.Failed == 0 {
		return fmt.Sprint(len(s.Values))
	}
	return fmt.Sprintf("%d, %d failed", len(s.Values), s.Failed)
}

// Number prints a value with three digits that say something.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) && math.Abs(v) < 1e6, math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Markdown writes RESULTS.md.
func (r Report) Markdown(out io.Writer) error {
	var b strings.Builder
	b.WriteString(`# Measurements

<!-- Written by make bench; the rows are in raw/rows.csv. -->

Each number is of one lab on one machine (see below), watched from outside: a client that asks a thousand times a second over ICMP, and over UDP through kube-proxy, and a packet capture with the kernel's time of each frame. P99 of fewer than 100 values is their maximum.

## Goals

| goal | limit | p50 | p99 | max | trials | |
|---|---|---|---|---|---|---|
`)
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", v.Text, v.limit(),
			Number(v.Series.P50()), Number(v.Series.P99()), Number(v.Series.Max()), v.Series.trials(), v.markdownWord())
	}
	r.misses(&b)
	r.facts(&b)
	r.series(&b)
	r.failures(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (v Verdict) markdownWord() string {
	if w := v.word(); w == "MISSED" {
		return "**missed**"
	} else {
		return w
	}
}

func (r Report) misses(b *strings.Builder) {
	title := "\n## Missed, and why\n\n"
	for _, v := range r.Verdicts {
		if v.Met || !v.Measured && v.Series.Failed == 0 {
			continue
		}
		cause := v.Cause
		switch {
		case v.Series.Failed > 0:
			cause = "trials failed, see below"
		case cause == "":
			cause = "not known yet"
		}
		fmt.Fprintf(b, "%s- %s: %s\n", title, v.Text, cause)
		title = ""
	}
}

func (r Report) facts(b *strings.Builder) {
	b.WriteString("\n## Where and how\n\n| | |\n|---|---|\n")
	for _, f := range r.Facts {
		fmt.Fprintf(b, "| %s | %s |\n", f[0], f[1])
	}
	if commits := r.commits(); len(commits) > 1 {
		fmt.Fprintf(b, "\nThe rows were measured at several commits: %s.\n", strings.Join(commits, ", "))
	}
}

// commits returns the commits of the rows, in their order.
func (r Report) commits() []string {
	var list []string
	for _, row := range r.Rows {
		if !slices.Contains(list, row.Commit) {
			list = append(list, row.Commit)
		}
	}
	return list
}

// series writes a table for each measurement.
func (r Report) series(b *strings.Builder) {
	all := Group(r.Rows)
	for _, m := range r.Meanings {
		var rows strings.Builder
		for _, s := range all {
			if s.Measurement != m[0] {
				continue
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", s.System, s.Case, s.Metric,
				Number(s.P50()), Number(s.P99()), Number(s.Max()), s.Unit, s.trials())
		}
		if rows.Len() == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n| system | case | value | p50 | p99 | max | unit | trials |\n|---|---|---|---|---|---|---|---|\n%s",
			m[0], m[1], rows.String())
	}
}

func (r Report) failures(b *strings.Builder) {
	title := "\n## Trials that failed\n\n"
	for _, row := range r.Rows {
		if row.Err == "" {
			continue
		}
		fmt.Fprintf(b, "%s- %s, %s %s, trial %d: %s\n", title, row.System, row.Measurement, row.Case, row.Trial,
			strings.Join(strings.Fields(row.Err), " "))
		title = ""
	}
}
