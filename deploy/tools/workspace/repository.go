package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// repository is the root directory of the repository.
type repository string

// modules returns the folders that hold a go.mod known to git, sorted.
func (r repository) modules() ([]string, error) {
	out, err := r.output(".", nil, "git", "ls-files", "go.mod", "**/go.mod")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for file := range strings.FieldsSeq(out) {
		dirs = append(dirs, path.Dir(file))
	}
	slices.Sort(dirs)
	return dirs, nil
}

// output returns what a command prints when run in a folder of the repository.
func (r repository) output(dir string, env []string, command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = filepath.Join(string(r), dir)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s in %s: %w\n%s", strings.Join(command, " "), cmd.Dir, err, stderr.Bytes())
	}
	return string(out), nil
}

// settle writes content to the file, or says how to repair it when it differs.
func (r repository) settle(file, content, repair string, fix bool) error {
	name := filepath.Join(string(r), file)
	have, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	if string(have) == content {
		return nil
	}
	if !fix {
		return fmt.Errorf("%s is out of date (%s); repair: %s", file, firstDifference(string(have), content), repair)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// firstDifference names the first line that only one of two texts has.
func firstDifference(have, want string) string {
	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	for _, line := range w {
		if !slices.Contains(h, line) {
			return "lacks " + strings.TrimSpace(line)
		}
	}
	for _, line := range h {
		if !slices.Contains(w, line) {
			return "has " + strings.TrimSpace(line)
		}
	}
	return "other order"
}
