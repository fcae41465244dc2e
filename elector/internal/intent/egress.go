package intent

import (
	"errors"
	"reflect"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// egress are the documents about egress as they stand in the state directory.
type egress struct {
	files *statefile.Writer
	// written are the documents of this process.
	written map[string]*schema.Egress
}

func (e *egress) openEgress(stateDir, instance string) (err error) {
	e.written = map[string]*schema.Egress{}
	e.files, err = statefile.NewWriter(ownership.Egress(stateDir), instance)
	return err
}

// WriteEgress brings the documents about egress to those of a plan. As long as
// there is no plan, those of an earlier process stay.
func (e *egress) WriteEgress(wanted []*schema.Egress) error {
	var errs []error
	keys := map[string]bool{}
	for _, doc := range wanted {
		keys[doc.Key] = true
		if old := e.written[doc.Key]; old != nil && same(old, doc) {
			continue // most of thousands, on most passes
		}
		next := *doc
		_, err := e.files.Write(doc.Key, &next)
		if e.written[doc.Key] = &next; err != nil {
			delete(e.written, doc.Key)
			errs = append(errs, err)
		}
	}
	for _, key := range e.files.Names() {
		if !keys[key] {
			delete(e.written, key)
			errs = append(errs, e.files.Remove(key))
		}
	}
	return errors.Join(errs...)
}

// same says whether two documents say the same.
func same(a, b *schema.Egress) bool {
	x, y := *a, *b
	x.Meta, y.Meta = schema.Meta{}, schema.Meta{}
	return reflect.DeepEqual(x, y)
}
