// Package gather makes one metrics page of several: it asks the siblings for
// theirs, trusts nothing that they answer, and puts what is sound on one page.
package gather

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ContentType is the text format that a page is written in.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// ComponentLabel says which daemon a series comes from.
const ComponentLabel = "component"

// ErrConflict is a family that another component has with another type, or
// that only metricsd may have.
var ErrConflict = errors.New("metric family belongs to another")

// Page is a set of metric families, each named once.
type Page struct {
	families map[string]*family
}

type family struct {
	*dto.MetricFamily
	reserved bool
	seen     map[string]bool // label sets
}

// NewPage returns a page with families that no component may add to.
func NewPage(own []*dto.MetricFamily) *Page {
	p := &Page{families: map[string]*family{}}
	for _, mf := range own {
		p.families[mf.GetName()] = &family{MetricFamily: mf, reserved: true}
	}
	return p
}

// Parse reads a page in the text format.
func Parse(text []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	return families, nil
}

// Add puts the families of a component on the page, each series with the
// component's label; a label of that name that it had is replaced, and so is
// a timestamp. Families that cannot be are left out and returned as errors.
func (p *Page) Add(component string, families map[string]*dto.MetricFamily) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if err := p.add(component, families[name]); err != nil {
			errs = append(errs, fmt.Errorf("adding %s of %s: %w", name, component, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Page) add(component string, mf *dto.MetricFamily) error {
	f, ok := p.families[mf.GetName()]
	if !ok {
		f = &family{
			MetricFamily: &dto.MetricFamily{Name: mf.Name, Help: mf.Help, Type: mf.Type, Unit: mf.Unit},
			seen:         map[string]bool{},
		}
	}
	if f.reserved || f.GetType() != mf.GetType() {
		return ErrConflict
	}
	for _, m := range mf.Metric {
		m.TimestampMs = nil
		m.Label = withComponent(m.Label, component)
		key := labelKey(m.Label)
		if !f.seen[key] { // the same series twice would spoil the page
			f.seen[key] = true
			f.Metric = append(f.Metric, m)
		}
	}
	if len(f.Metric) > 0 {
		p.families[mf.GetName()] = f
	}
	return nil
}

func withComponent(labels []*dto.LabelPair, component string) []*dto.LabelPair {
	labels = slices.DeleteFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == ComponentLabel })
	labels = append(labels, &dto.LabelPair{Name: new(ComponentLabel), Value: &component})
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return labels
}

func labelKey(labels []*dto.LabelPair) string {
	var key strings.Builder
	for _, l := range labels {
		fmt.Fprintf(&key, "%q=%q,", l.GetName(), l.GetValue())
	}
	return key.String()
}

// Text returns the page in the text format, ordered by name. A family that
// the format cannot hold is left out.
func (p *Page) Text() ([]byte, error) {
	var text bytes.Buffer
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.families)) {
		before := text.Len()
		if _, err := expfmt.MetricFamilyToText(&text, p.families[name].MetricFamily); err != nil {
			text.Truncate(before)
			errs = append(errs, fmt.Errorf("writing %s: %w", name, err))
		}
	}
	return text.Bytes(), errors.Join(errs...)
}
