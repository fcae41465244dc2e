package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileSetting names the setting that says where the file is.
const fileSetting = "config_file"

// maxFile is the largest configuration file, in bytes.
const maxFile = 1 << 20

// decodeFile reads a YAML mapping of settings to scalars or lists of scalars.
// Values are taken as they are written, so that 32,128 or 010 mean the same
// as in the environment. It returns what was good besides the errors.
func decodeFile(data []byte) (map[string]given, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many: want at most %d", len(data), maxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one YAML document, and nothing behind it")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want settings, each as name: value", root.Line)
	}
	return decodeSettings(root)
}

func decodeSettings(root *yaml.Node) (map[string]given, error) {
	values := map[string]given{}
	seen := map[string]bool{}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, val := root.Content[i], root.Content[i+1]
		name, err := settingName(key)
		if err == nil && seen[name] {
			err = fmt.Errorf("%s: given twice: want it once", name)
		}
		var text string
		if err == nil {
			seen[name] = true
			text, err = scalarText(name, val)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", key.Line, err))
			continue
		}
		values[name] = given{text, fmt.Sprintf("file, line %d", key.Line)}
	}
	return values, errors.Join(errs...)
}

// settingName returns the setting that a key of the file names.
func settingName(key *yaml.Node) (string, error) {
	if key.Kind != yaml.ScalarNode {
		return "", errors.New("want the name of a setting as key")
	}
	for row := range rows() {
		for _, name := range row.names() {
			if name == key.Value && name != fileSetting {
				return row.name, nil
			}
		}
	}
	if key.Value == fileSetting {
		return "", errors.New("config_file: a file cannot name another one")
	}
	return "", fmt.Errorf("%s: unknown setting%s", Quote(key.Value), didYouMean(key.Value))
}

// scalarText returns a value as it is written; items of a list with commas
// between.
func scalarText(name string, val *yaml.Node) (string, error) {
	switch {
	case val.Kind == yaml.ScalarNode && val.Tag == "!!null":
		return "", nil
	case val.Kind == yaml.ScalarNode:
		return val.Value, nil
	case val.Kind != yaml.SequenceNode:
		return "", fmt.Errorf("%s: want a single value or a list of them", name)
	}
	var items []string
	for _, item := range val.Content {
		if item.Kind != yaml.ScalarNode || strings.Contains(item.Value, ",") {
			return "", fmt.Errorf("%s: want single values without commas in the list", name)
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), nil
}
