package config

import "flag"

// AddFlags adds the settings to fs, by kube-vip's names, and returns what
// fs.Parse finds.
func AddFlags(fs *flag.FlagSet) Flags {
	found := Flags{}
	for row := range rows() {
		for _, name := range row.flags {
			fs.Var(&flagValue{found: found, row: row, flag: name}, name, row.usage())
		}
	}
	return found
}

// usage is the text of --help.
func (s setting) usage() string {
	u := s.meaning() + " Want " + s.allowed + " (environment and file: " + s.name
	if s.alias != "" {
		u += " or " + s.alias
	}
	return u + ")"
}

// flagValue keeps the text of one flag for Parse, which judges it together
// with all others.
type flagValue struct {
	found Flags
	row   setting
	flag  string
}

// String returns the default.
func (f *flagValue) String() string { return f.row.standard }

// Set implements flag.Value.
func (f *flagValue) Set(text string) error {
	f.found[f.row.name] = given{text, "flag --" + f.flag}
	return nil
}

// IsBoolFlag lets a boolean flag stand without a value.
func (f *flagValue) IsBoolFlag() bool { return f.row.boolean }
