package pod

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/vipod/vipod/shared/schema"
)

// PrintAnswer prints an answer to /status for a person.
func PrintAnswer(out io.Writer, answer []byte) error {
	var r Report
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	return r.Print(out)
}

// Print prints the pod as a table of components and a table of VIPs.
func (r Report) Print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "node %s, %s\n\n", orDash(r.Node), r.phase())
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tUP\tREADY\tVERSION\tCONDITIONS")
	for _, c := range r.Components {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Name, c.up(), yes(c.Ready), orDash(c.Version), orDash(c.summary()))
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "VIP\tADDRESS\tSTATE\tPRESENT\tANNOUNCED\tGRANT\tREMAINING")
	for _, v := range r.VIPs {
		for _, a := range v.rows() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Key, a[0], orDash(string(v.State)), a[1],
				yes(v.Announced), orDash(string(v.Grant)), v.remaining())
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(r.Problems)) {
		fmt.Fprintf(&text, "\nproblem: %s", printable(r.Problems[path]))
	}
	if len(r.Problems) > 0 {
		text.WriteString("\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (r Report) phase() string {
	switch {
	case r.Phase == "":
		return "nothing known from elector yet"
	case !r.Synced:
		return string(r.Phase) + ", not synced yet"
	}
	return string(r.Phase)
}

func (c Component) up() string {
	if !c.Enabled {
		return "off"
	}
	return yes(c.Up)
}

// summary returns the conditions that a person would look at: what is not as
// it should be. A condition says by its name what True means; Conflict is the
// one that should be False.
func (c Component) summary() string {
	var parts []string
	for _, cond := range c.Conditions {
		if (cond.Status == schema.True) == (cond.Type == schema.ConditionConflict) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s=%s %s", cond.Type, cond.Status, cond.Message)))
		}
	}
	if c.Enabled && c.Message != "" {
		parts = append(parts, c.Message)
	}
	return strings.Join(parts, "; ")
}

// rows returns address and presence of each address, one row for none.
func (v VIPReport) rows() [][2]string {
	if len(v.Addresses) == 0 {
		return [][2]string{{"-", "-"}}
	}
	var rows [][2]string
	for _, a := range v.Addresses {
		rows = append(rows, [2]string{a.IP.String(), yes(a.Present)})
	}
	return rows
}

func (v VIPReport) remaining() string {
	if v.Grant == "" || v.Grant == schema.GrantNone {
		return "-"
	}
	return fmt.Sprintf("%.1fs", v.Remaining)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// printable replaces what could do something to a terminal or to the table:
// messages come from other processes.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
