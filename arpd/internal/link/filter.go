package link

import (
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
)

// snapLength is the longest frame that is looked at, in bytes.
const snapLength = 512

// filter returns the program by which the kernel keeps from the socket what
// cannot be a claim. Offsets are from the network header.
func filter(protocol uint16) ([]unix.SockFilter, error) {
	// Frames for other hosts: those of VLANs that do not exist here arrive as
	// such, and are none of this link's business.
	head := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OTHERHOST, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	}
	program := []bpf.Instruction{
		// ARP for IPv4: protocol type and length of its addresses.
		bpf.LoadAbsolute{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 5, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 4, SkipTrue: 1},
		bpf.RetConstant{Val: snapLength},
		bpf.RetConstant{Val: 0},
	}
	if protocol == frame.IPv6 {
		program = []bpf.Instruction{
			// Directly an ICMPv6 message, hop limit 255, type 135 or 136.
			bpf.LoadAbsolute{Off: 6, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_ICMPV6, SkipTrue: 6},
			bpf.LoadAbsolute{Off: 7, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 255, SkipTrue: 4},
			bpf.LoadAbsolute{Off: 40, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 135, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 136, SkipTrue: 1},
			bpf.RetConstant{Val: snapLength},
			bpf.RetConstant{Val: 0},
		}
	}
	raw, err := bpf.Assemble(append(head, program...))
	if err != nil {
		return nil, fmt.Errorf("assembling filter: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}
