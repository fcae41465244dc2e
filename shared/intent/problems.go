package intent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/vipod/vipod/shared/schema"
)

// Problems say, by file, why documents could not be read. A file's name is
// relative to its writer's directory, such as "vips/default.web.json".
type Problems map[string]error

// Add notes an error, if it is one: a file that is not there is not wrong.
func (p Problems) Add(file string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p[file] = err
	}
}

// named is how many problems a condition's message names.
const named = 5

// Condition is DocumentsReadable of a daemon that met the problems.
func (p Problems) Condition() schema.Condition {
	c := schema.Condition{Type: schema.ConditionDocuments, Status: schema.True, Reason: "Readable"}
	if len(p) == 0 {
		return c
	}
	var parts []string
	for _, file := range slices.Sorted(maps.Keys(p)) {
		if len(parts) == named {
			parts = append(parts, fmt.Sprintf("and %d more", len(p)-named))
			break
		}
		parts = append(parts, fmt.Sprintf("%s: %.300s", file, p[file]))
	}
	c.Status, c.Reason, c.Message = schema.False, "Unreadable", strings.Join(parts, "; ")
	return c
}
