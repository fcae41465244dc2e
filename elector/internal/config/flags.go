package config

import "flag"

// AddFlags adds the settings to fs and returns what fs.Parse will find.
func AddFlags(fs *flag.FlagSet) Flags {
	return Flags{}
}
