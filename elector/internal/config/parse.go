package config

// Flags are the settings given on the command line, by name of the setting.
type Flags map[string]string

// Sources is where settings come from.
type Sources struct {
	Flags Flags
	// LookupEnv is os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// ReadFile is os.ReadFile.
	ReadFile func(string) ([]byte, error)
	// Hostname is os.Hostname; asked only without vip_nodename.
	Hostname func() (string, error)
}

// Parse returns the configuration, or all errors joined.
func Parse(s Sources) (*Config, error) {
	return nil, nil
}
