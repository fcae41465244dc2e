package result

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Key names a series of values that are of one kind.
type Key struct {
	// System is what was measured: "vipod" or a peer.
	System string
	// Measurement and Case say in what, Metric which value.
	Measurement, Case, Metric string
	// Unit is that of the values: "ms", "probes", "requests/s", ...
	Unit string
}

// Row is one measured value, or one trial that failed.
type Row struct {
	Key
	// Trial counts from 1 within Measurement and Case.
	Trial int
	Value float64
	// Err says why the trial gave no values; Metric and Unit are empty then.
	Err string
	// Commit is that of the programs, At when the value was recorded.
	Commit string
	At     time.Time
}

// header is the first line of the file.
var header = []string{"system", "measurement", "case", "trial", "metric", "unit", "value", "error", "commit", "at"}

func (r Row) fields() []string {
	return []string{
		r.System, r.Measurement, r.Case, strconv.Itoa(r.Trial), r.Metric, r.Unit,
		strconv.FormatFloat(r.Value, 'f', -1, 64), r.Err, r.Commit, r.At.UTC().Format(time.RFC3339),
	}
}

func parseRow(f []string) (r Row, err error) {
	r.System, r.Measurement, r.Case, r.Metric, r.Unit, r.Err, r.Commit = f[0], f[1], f[2], f[4], f[5], f[7], f[8]
	var errs [3]error
	r.Trial, errs[0] = strconv.Atoi(f[3])
	r.Value, errs[1] = strconv.ParseFloat(f[6], 64)
	r.At, errs[2] = time.Parse(time.RFC3339, f[9])
	return r, errors.Join(errs[:]...)
}

// Read reads rows as Write writes them.
func Read(in io.Reader) ([]Row, error) {
	c := csv.NewReader(in)
	c.FieldsPerRecord = len(header)
	records, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	if len(records) == 0 || !slices.Equal(records[0], header) {
		return nil, fmt.Errorf("reading rows: the first line is not %q", header)
	}
	rows := make([]Row, 0, len(records)-1)
	for i, record := range records[1:] {
		row, err := parseRow(record)
		if err != nil {
			return nil, fmt.Errorf("reading row %d: %w", i+1, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Write writes rows as CSV with a header.
func Write(out io.Writer, rows []Row) error {
	c := csv.NewWriter(out)
	_ = c.Write(header) // the error stays until Flush
	for _, r := range rows {
		_ = c.Write(r.fields())
	}
	c.Flush()
	return c.Error()
}

// Book is the rows of all measurements in one file. A measurement that is
// made again replaces its rows, those of others stay. It is not safe for
// concurrent use.
type Book struct {
	path string
	rows []Row
}

// Open reads the file, which need not exist.
func Open(path string) (*Book, error) {
	b := &Book{path: path}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening rows: %w", err)
	}
	defer file.Close()
	b.rows, err = Read(file)
	return b, err
}

// Rows returns all rows.
func (b *Book) Rows() []Row { return b.rows }

// Forget drops the rows of a system's measurement.
func (b *Book) Forget(system, measurement string) {
	b.rows = slices.DeleteFunc(b.rows, func(r Row) bool { return r.System == system && r.Measurement == measurement })
}

// Add adds rows and writes the file, so that nothing is lost when the run is
// aborted.
func (b *Book) Add(rows ...Row) error {
	b.rows = append(b.rows, rows...)
	if err := os.MkdirAll(filepath.Dir(b.path), 0o755); err != nil {
		return fmt.Errorf("writing rows: %w", err)
	}
	file, err := os.Create(b.path + ".new")
	if err != nil {
		return fmt.Errorf("writing rows: %w", err)
	}
	err = errors.Join(Write(file, b.rows), file.Close())
	if err == nil {
		err = os.Rename(b.path+".new", b.path)
	}
	if err != nil {
		return fmt.Errorf("writing rows: %w", err)
	}
	return nil
}
