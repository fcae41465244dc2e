package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Lacking says whether an error of ProbeFence means that this kernel cannot do
// the fence and never will: no nf_tables, no netdev family, no egress hook.
// Any other, such as want of memory, may pass.
func Lacking(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT)
}

// ProbeFence says whether the kernel can do the fence: nf_tables, the egress
// hook (Linux 5.16) and sets with timeouts. It makes a table with a chain on
// lo and removes it in one transaction, so that nothing is ever in force.
func ProbeFence(table string) error {
	f := &fence{table: table + "_probe"}
	c, err := connect()
	if err != nil {
		return fmt.Errorf("opening nf_tables: %w", err)
	}
	f.addTable(c)
	f.addChain(c, "lo")
	c.DelTable(f.nft())
	if err := c.Flush(); err != nil {
		return fmt.Errorf("trying the fence: %w", err)
	}
	return nil
}
