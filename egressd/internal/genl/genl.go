// Package genl speaks generic netlink (Documentation/userspace-api/netlink),
// as far as egressd needs it for WireGuard and IPVS: a family is looked up by
// its name, and messages go to it.
package genl

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// headerSize is that of genlmsghdr, in bytes.
const headerSize = 4

// ErrNoFamily is a kernel that does not have the family, nor a module for it.
var ErrNoFamily = errors.New("the kernel does not have it")

// Family is an open socket to a family of the network namespace of the thread
// that opened it. It is not safe for concurrent use.
type Family struct {
	conn    *netlink.Conn
	id      uint16
	version uint8
}

// Open looks a family up; the kernel loads its module if it may.
func Open(name string, version uint8) (*Family, error) {
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, nil)
	if err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	control := &Family{conn: conn, id: unix.GENL_ID_CTRL, version: 1}
	id, err := control.lookUp(name)
	if errors.Is(err, unix.ENOENT) {
		err = ErrNoFamily
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking for family %s: %w", name, err), conn.Close())
	}
	return &Family{conn: conn, id: id, version: version}, nil
}

func (f *Family) lookUp(name string) (uint16, error) {
	e := netlink.NewAttributeEncoder()
	e.String(unix.CTRL_ATTR_FAMILY_NAME, name)
	answers, err := f.Ask(unix.CTRL_CMD_GETFAMILY, 0, e)
	if err != nil {
		return 0, err
	}
	for _, a := range answers {
		d, err := netlink.NewAttributeDecoder(a)
		if err != nil {
			return 0, err
		}
		for d.Next() {
			if d.Type() == unix.CTRL_ATTR_FAMILY_ID {
				return d.Uint16(), d.Err()
			}
		}
		if err := d.Err(); err != nil {
			return 0, err
		}
	}
	return 0, ErrNoFamily
}

// Close closes the socket.
func (f *Family) Close() error { return f.conn.Close() }

// Ask sends a command and returns the attributes of each answer.
func (f *Family) Ask(command uint8, flags netlink.HeaderFlags, attributes *netlink.AttributeEncoder) ([][]byte, error) {
	data, err := attributes.Encode()
	if err != nil {
		return nil, err
	}
	answers, err := f.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(f.id), Flags: netlink.Request | flags},
		Data:   append([]byte{command, f.version, 0, 0}, data...),
	})
	if err != nil {
		return nil, err
	}
	var list [][]byte
	for _, a := range answers {
		if len(a.Data) == 0 {
			continue // an acknowledgement
		}
		if len(a.Data) < headerSize {
			return nil, fmt.Errorf("an answer has %d bytes", len(a.Data))
		}
		list = append(list, a.Data[headerSize:])
	}
	return list, nil
}

// Do sends a command and waits for the kernel's acknowledgement.
func (f *Family) Do(command uint8, attributes *netlink.AttributeEncoder) error {
	_, err := f.Ask(command, netlink.Acknowledge, attributes)
	return err
}
