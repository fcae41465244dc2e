package metricsd

import (
	"fmt"
	"net"
	"strconv"

	"github.com/vipod/vipod/shared/daemon"
)

// Options are the daemon's own flags.
type Options struct {
	Listen Address
}

// Address is a listening address that may be given or not; "" is one.
type Address struct {
	given bool
	value string
}

// String implements flag.Value.
func (a *Address) String() string { return a.value }

// Set implements flag.Value.
func (a *Address) Set(s string) error {
	if err := validate(s); err != nil {
		return err
	}
	a.given, a.value = true, s
	return nil
}

// validate accepts what can be listened on without asking anybody: an IP
// address or nothing, a colon and a port; or nothing at all.
func validate(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not [ip]:port: %w", address, err)
	}
	if host != "" && net.ParseIP(host) == nil {
		return fmt.Errorf("address %q: %q is not an IP address", address, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %q: port %q is not 1 to 65535", address, port)
	}
	return nil
}

// Check implements the subcommand check: all that can be wrong was refused
// with the flag.
func (o *Options) Check(*daemon.Env) error {
	if o.Listen.given {
		return validate(o.Listen.value)
	}
	return nil
}
