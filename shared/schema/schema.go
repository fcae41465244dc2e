// Package schema holds the documents that the daemons exchange through the
// state directory: their types, decoding and validation.
//
// A reader accepts a document of its own major schema version and ignores
// fields that it does not know, so that containers of one pod can be replaced
// one at a time. Anything else is an error; the reader then keeps the last
// good document.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxSize is the largest document that is read, in bytes.
const MaxSize = 1 << 20

// Errors by which a reader tells why a document was refused.
var (
	// ErrSchema is a document of another type or major version.
	ErrSchema = errors.New("unsupported schema")
	// ErrTooLarge is a document over MaxSize.
	ErrTooLarge = errors.New("document too large")
)

// Meta is the head of every document.
type Meta struct {
	// Schema is the document's type and major version, such as "vipod.vip/1".
	Schema string `json:"schema"`
	// Instance names the writing process: boot id and a random part. Two
	// generations compare only within one instance.
	Instance string `json:"instance"`
	// Generation grows by one with every change of this document.
	Generation int64 `json:"generation"`
}

// Head returns the document's head, for readers and writers that handle
// documents of any type.
func (m *Meta) Head() *Meta { return m }

// Seen returns what a reader of this document reports as observed.
func (m *Meta) Seen() Observed {
	return Observed{Instance: m.Instance, Generation: m.Generation}
}

// Observed says which state of another document a status is about.
type Observed struct {
	Instance   string `json:"instance"`
	Generation int64  `json:"generation"`
}

// Document is a pointer to one of the document types.
type Document interface {
	Head() *Meta
	// SchemaName returns the schema that the type is written with.
	SchemaName() string
	// Validate returns an error naming the field that is wrong.
	Validate() error
}

// Keyed is a document that there is one of per VIP; its file has the key's
// name.
type Keyed interface {
	Document
	DocumentKey() string
}

// Pointer is the constraint that lets Decode make a value of a document type.
type Pointer[T any] interface {
	*T
	Document
}

// Decode reads exactly one document from data and validates it.
func Decode[T any, P Pointer[T]](data []byte) (T, error) {
	var doc, zero T
	p := P(&doc)
	if len(data) > MaxSize {
		return zero, fmt.Errorf("%d bytes: %w", len(data), ErrTooLarge)
	}
	// The head comes first, so that a future version with other field types
	// is reported as such and not as a type error.
	var head Meta
	if err := decodeOne(data, &head); err != nil {
		return zero, err
	}
	if head.Schema != p.SchemaName() {
		return zero, fmt.Errorf("%w: have %q, want %q", ErrSchema, head.Schema, p.SchemaName())
	}
	if head.Instance == "" {
		return zero, errors.New("instance is empty")
	}
	if err := decodeOne(data, p); err != nil {
		return zero, err
	}
	if err := p.Validate(); err != nil {
		return zero, err
	}
	return doc, nil
}

// decodeOne decodes one JSON value and requires the end of input behind it:
// a truncated document fails by itself, a doubled one must as well.
func decodeOne(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decoding document: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decoding document: data after the document")
	}
	return nil
}

// Encode returns the document's bytes as they stand in a file.
func Encode(doc Document) ([]byte, error) {
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", doc.SchemaName(), err)
	}
	if len(b) >= MaxSize {
		return nil, fmt.Errorf("encoding %s: %d bytes: %w", doc.SchemaName(), len(b), ErrTooLarge)
	}
	return append(b, '\n'), nil
}

// ConditionStatus is the status of a condition, as Kubernetes has it.
type ConditionStatus string

// The three values of a condition's status.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// Condition is one observation about an object, as in the Kubernetes API
// conventions.
type Condition struct {
	Type   string          `json:"type"`
	Status ConditionStatus `json:"status"`
	// Reason is one CamelCase word for programs, Message a sentence for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when Status last changed; for people only, since it is wall
	// clock time.
	Since time.Time `json:"since"`
}

// SetCondition puts c into list, which it changes and returns. Since stays
// when the status did not change, so that an unchanged pass writes equal
// bytes.
func SetCondition(list []Condition, c Condition, now time.Time) []Condition {
	c.Since = now.UTC().Truncate(time.Millisecond)
	for i := range list {
		if list[i].Type != c.Type {
			continue
		}
		if list[i].Status == c.Status {
			c.Since = list[i].Since
		}
		list[i] = c
		return list
	}
	return append(list, c)
}

// FindCondition returns the condition of the given type.
func FindCondition(list []Condition, kind string) (Condition, bool) {
	for _, c := range list {
		if c.Type == kind {
			return c, true
		}
	}
	return Condition{}, false
}

// IsTrue says whether the condition of the given type is there and True.
func IsTrue(list []Condition, kind string) bool {
	c, ok := FindCondition(list, kind)
	return ok && c.Status == True
}
