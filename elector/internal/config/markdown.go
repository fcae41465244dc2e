package config

import (
	"fmt"
	"strings"
)

// Markdown returns the page of all settings, as it stands in SETTINGS.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| setting | flag | default | allowed | meaning |\n|---|---|---|---|---|\n", s.title)
		for _, row := range s.settings {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n",
				code(row.names()...), code(dashed(row.flags)...), code(row.standard), row.allowed, row.meaning())
		}
	}
	return b.String()
}

const pageHead = `# Settings

<!-- Generated from elector/internal/config: go test ./internal/config -run Settings -update -->

elector reads the settings of the whole pod. Each has one name in the environment and in the YAML file of ` + "`--config`" + `: kube-vip's, or one that begins with ` + "`vipod_`" + `. Flags have kube-vip's names.

A flag wins over the environment, the environment over the file, the file over the default (in kube-vip the environment wins over flags). An empty value is as good as none, except where the table says what it means. A list has commas between its items, in the file it may be a YAML list. ` + "`elector check`" + ` judges all of them at once.
`

// meaning is the doc, and why the setting has no effect where it has none.
func (s setting) meaning() string {
	if s.noEffect == "" {
		return s.doc
	}
	return s.doc + " " + strings.ToUpper(s.noEffect[:1]) + s.noEffect[1:] + "."
}

func dashed(flags []string) []string {
	var all []string
	for _, f := range flags {
		all = append(all, "--"+f)
	}
	return all
}

// code formats texts as code, with commas between.
func code(texts ...string) string {
	var all []string
	for _, t := range texts {
		if t != "" {
			all = append(all, "`"+t+"`")
		}
	}
	return strings.Join(all, ", ")
}
