package config

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Flags are the settings given on the command line, by name of the setting.
type Flags map[string]given

// given is a text and where it was given.
type given struct{ text, origin string }

// Sources is where settings come from.
type Sources struct {
	Flags Flags
	// LookupEnv is os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Environ is os.Environ; nil lists nothing.
	Environ func() []string
	// ReadFile is os.ReadFile.
	ReadFile func(string) ([]byte, error)
	// Hostname is os.Hostname; asked only without vip_nodename.
	Hostname func() (string, error)
}

// Parse returns the configuration, or all errors joined.
func Parse(s Sources) (*Config, error) {
	var errs []error
	path, err := s.configFile()
	errs = append(errs, err)
	file := map[string]given{}
	if path != "" {
		file, err = s.file(path)
		errs = append(errs, err)
	}
	p := &parser{sources: s, file: file, given: map[string]given{}}
	for row := range rows() {
		errs = append(errs, p.apply(row))
	}
	errs = append(errs, p.check(), p.complete())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.Notices = append(p.notices(), s.unknown()...)
	return &p.Config, nil
}

// parser puts one configuration together.
type parser struct {
	raw
	sources Sources
	file    map[string]given
	// given are the settings that somebody set, good or not.
	given map[string]given
}

// rows returns the settings in the order of the table.
func rows() iter.Seq[setting] {
	return func(yield func(setting) bool) {
		for _, s := range sections {
			for _, row := range s.settings {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// apply takes one setting from where it counts. After an error the default
// stands in, so that the checks behind find no further fault in it.
func (p *parser) apply(s setting) error {
	g, ok := p.find(s)
	if !ok {
		return s.setDefault(&p.raw)
	}
	p.given[s.name] = g
	if err := s.set(&p.raw, g.text); err != nil {
		return errors.Join(s.fault(g, err), s.setDefault(&p.raw))
	}
	return nil
}

func (s setting) setDefault(r *raw) error {
	if s.standard == "" && (s.optional || s.boolean) {
		return nil
	}
	if err := s.set(r, s.standard); err != nil {
		return s.fault(given{s.standard, "default"}, err)
	}
	return nil
}

// fault makes the error about a text that was given for s.
func (s setting) fault(g given, err error) error {
	text := g.text
	item, isItem := errors.AsType[errItem](err)
	if isItem {
		text = string(item)
	}
	if isItem || errors.Is(err, errNotAllowed) {
		err = fmt.Errorf("%s is not allowed: want %s", Quote(text), s.allowed)
	}
	return fmt.Errorf("%s (%s): %w", s.name, g.origin, err)
}

// find returns the text that counts. An empty one is as good as none, unless
// it means something.
func (p *parser) find(s setting) (given, bool) {
	for _, look := range []func(setting) (given, bool){p.sources.flag, p.sources.env, p.fromFile} {
		if g, ok := look(s); ok && (g.text != "" || s.keepsEmpty) {
			return g, true
		}
	}
	return given{}, false
}

func (s Sources) flag(row setting) (given, bool) {
	g, ok := s.Flags[row.name]
	return g, ok
}

func (s Sources) env(row setting) (given, bool) {
	for _, name := range row.names() {
		if text, ok := s.LookupEnv(name); ok {
			return given{text, "environment"}, true
		}
	}
	return given{}, false
}

func (p *parser) fromFile(row setting) (given, bool) {
	for _, name := range row.names() {
		if g, ok := p.file[name]; ok {
			return g, true
		}
	}
	return given{}, false
}

// names returns what the setting is called in the environment and the file.
func (s setting) names() []string {
	if s.alias == "" {
		return []string{s.name}
	}
	return []string{s.name, s.alias}
}

// configFile returns where the file is, "" for none. Its own key in a file
// is an error, which decodeFile finds.
func (s Sources) configFile() (string, error) {
	p := parser{sources: s, given: map[string]given{}}
	for row := range rows() {
		if row.name == fileSetting {
			err := p.apply(row)
			return p.configFile, err
		}
	}
	return "", nil
}

// file reads and decodes the configuration file.
func (s Sources) file(path string) (map[string]given, error) {
	data, err := s.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fileSetting, err)
	}
	values, err := decodeFile(data)
	if err != nil {
		return values, fmt.Errorf("%s %s: %w", fileSetting, path, err)
	}
	return values, nil
}

// notices names what was given and changes nothing, one sentence a reason.
func (p *parser) notices() []string {
	var reasons []string
	names := map[string][]string{}
	for row := range rows() {
		if _, ok := p.given[row.name]; !ok || row.noEffect == "" {
			continue
		}
		if !slices.Contains(reasons, row.noEffect) {
			reasons = append(reasons, row.noEffect)
		}
		names[row.noEffect] = append(names[row.noEffect], row.name)
	}
	var all []string
	for _, reason := range reasons {
		all = append(all, strings.Join(names[reason], ", ")+": "+reason)
	}
	return all
}

// unknown names what in the environment looks like a setting and is none. It
// is no error: kube-vip ignores it, and older ones have settings that are gone.
func (s Sources) unknown() []string {
	if s.Environ == nil {
		return nil
	}
	var all []string
	for _, variable := range s.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "vip_") && !strings.HasPrefix(name, "vipod_") || isSetting(name) {
			continue
		}
		all = append(all, Quote(name)+": no effect: unknown setting in the environment"+didYouMean(name))
	}
	slices.Sort(all)
	return all
}

func isSetting(name string) bool {
	for row := range rows() {
		if slices.Contains(row.names(), name) {
			return true
		}
	}
	return false
}
