package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// perPlan is how many Services a plan is made of.
const perPlan = 20_000

// hostile are values that no annotation should have.
var hostile = []string{
	"", ",", "\x00", "\xff\xfe", "../..", "fe80::1%eth0", "198.51.100.80/99", "::ffff:198.51.100.80", "a.example",
	strings.Repeat("9", 300), "198.51.100.80,,198.51.100.80", "255.255.255.255", "ff02::1", "127.0.0.1", "shop/x", "eth9.4095",
}

// TestModelServicesByTheMillion plans VIPOD_SERVICES Services, of which some
// are as they should be, some share or contest addresses, and some are
// hostile.
func TestModelServicesByTheMillion(t *testing.T) {
	total := perPlan
	if s := os.Getenv("VIPOD_SERVICES"); s != "" {
		var err error
		if total, err = strconv.Atoi(s); err != nil {
			t.Fatalf("VIPOD_SERVICES: %v", err)
		}
	}
	eligible, refused := 0, 0
	for done := 0; done < total; done += perPlan {
		r := rand.New(rand.NewPCG(uint64(done), 3))
		out := Plan(manyServices(r, perPlan))
		if n := len(out.VIPs) + len(out.Refusals); n < perPlan {
			t.Fatalf("%d of %d Services are accounted for", n, perPlan)
		}
		groupOf(t, out)
		for _, v := range out.VIPs {
			if v.Eligible {
				eligible++
				valid(t, v)
			}
		}
		refused += len(out.Refusals)
	}
	t.Logf("%d Services: %d eligible, %d refusals", total, eligible, refused)
	if eligible < total/4 || refused < total/10 {
		t.Errorf("of %d Services %d are eligible and %d refused: they do not exercise the plan", total, eligible, refused)
	}
}

func manyServices(r *rand.Rand, n int) Input {
	services := make([]*corev1.Service, n)
	for i := range services {
		if r.IntN(4) == 0 {
			services[i] = randomService(r, 0, hostile)
			services[i].Name = fmt.Sprintf("hostile%d", i)
			services[i].Annotations[pick(r, annotationAddresses, annotationInterface, annotationLease)] = pick(r, hostile...)
			continue
		}
		at := r.IntN(n) // so that some meet
		services[i] = svc(fmt.Sprintf("shop/web%d", i), onPort(int32(80+r.IntN(3))),
			ips(fmt.Sprintf("198.18.%d.%d,2001:db8:2::%x", at/250, at%250+1, at+1)))
		services[i].Spec.ClusterIP = fmt.Sprintf("10.%d.%d.%d", 97+i/62500, i/250%250, i%250+1)
	}
	return world(services...)
}
