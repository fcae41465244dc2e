package vipd

import (
	"fmt"
	"log/slog"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyAKernelThatLacksTheFenceDoesWithoutIt(t *testing.T) {
	for _, c := range []struct {
		errs []error // of one probe after the other
		want string
	}{
		{[]error{nil}, "fence"},
		{[]error{unix.EOPNOTSUPP}, "none"},
		{[]error{unix.ENOENT}, "none"},
		{[]error{unix.EPROTONOSUPPORT}, "none"},
		{[]error{unix.ENOBUFS, unix.EINTR, nil}, "error error fence"},
		{[]error{unix.EPERM, unix.EOPNOTSUPP}, "error none"},
	} {
		var got string
		tries := 0
		open := opener(slog.New(slog.DiscardHandler), func(string) error {
			err := c.errs[tries]
			tries++
			if err != nil {
				err = fmt.Errorf("trying the fence: %w", err)
			}
			return err
		})
		for range c.errs {
			switch _, fence, err := open("table"); {
			case err != nil:
				got += "error "
			case fence:
				got += "fence "
			default:
				got += "none "
			}
		}
		if got != c.want+" " {
			t.Errorf("%v: %s, want %s", c.errs, got, c.want)
		}
		if _, _, err := open("table"); err != nil || tries != len(c.errs) {
			t.Errorf("%v: probed again, or %v", c.errs, err)
		}
	}
}
