package kube

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
)

// BenchmarkLease is what a Lease with many claims costs its writer, and each
// of its readers once per renewal.
func BenchmarkLease(b *testing.B) {
	for _, n := range []int{10, 1000, MaxClaims} {
		u := claim.Update{Base: 1, Ready: true}
		for i := range n {
			u.Claims = append(u.Claims, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 14: byte(i >> 8), 15: byte(i)}))
		}
		id := Identity{Node: "n1", Protocol: 248, Duration: 5 * time.Second}
		lease, err := encodeLease("kube-system", id, u, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		lease.ResourceVersion = "2"
		b.Run(fmt.Sprintf("encode/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := encodeLease("kube-system", id, u, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(lease.Annotations[AnnotationVIPs])), "bytes")
		})
		b.Run(fmt.Sprintf("decode/%d", n), func(b *testing.B) {
			for b.Loop() {
				if l, ok := decodeLease(lease); !ok || l.Problem != nil {
					b.Fatal(l.Problem)
				}
			}
		})
	}
}
