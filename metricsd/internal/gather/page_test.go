package gather_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/vipod/vipod/metricsd/internal/gather"
)

func parse(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := gather.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func text(t testing.TB, p *gather.Page) string {
	t.Helper()
	b, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPageMergesFamiliesAndLabelsThem(t *testing.T) {
	for _, test := range []struct {
		name          string
		vipd, arpd    string
		want          string
		arpdConflicts bool
	}{
		{
			name: "same family of two",
			vipd: "# HELP passes Passes.\n# TYPE passes counter\npasses 3\n",
			arpd: "# HELP passes Other words.\n# TYPE passes counter\npasses 4\n",
			want: "# HELP passes Passes.\n# TYPE passes counter\n" +
				"passes{component=\"vipd\"} 3\npasses{component=\"arpd\"} 4\n",
		},
		{
			name: "a component that claims to be another",
			arpd: "up{component=\"vipd\",a=\"b\"} 1\n",
			want: "# TYPE up untyped\nup{a=\"b\",component=\"arpd\"} 1\n",
		},
		{
			name: "labels that would break out of their quotes",
			arpd: `x{a="\"} 1\ny 2"} 1` + "\n",
			want: "# TYPE x untyped\nx{a=\"\\\"} 1\\ny 2\",component=\"arpd\"} 1\n",
		},
		{
			name: "the same series twice",
			arpd: "x{a=\"1\",b=\"2\"} 1\nx{b=\"2\",a=\"1\"} 2\nx{component=\"z\",a=\"1\",b=\"2\"} 3\n",
			want: "# TYPE x untyped\nx{a=\"1\",b=\"2\",component=\"arpd\"} 1\n",
		},
		{
			name: "a timestamp from the future",
			arpd: "x 1 99999999999999\n",
			want: "# TYPE x untyped\nx{component=\"arpd\"} 1\n",
		},
		{
			name:          "another type",
			vipd:          "# TYPE x counter\nx 1\n",
			arpd:          "# TYPE x gauge\nx 2\ny 1\n",
			want:          "# TYPE x counter\nx{component=\"vipd\"} 1\n# TYPE y untyped\ny{component=\"arpd\"} 1\n",
			arpdConflicts: true,
		},
		{
			name:          "a name that belongs to metricsd",
			arpd:          "# TYPE own gauge\nown 7\n",
			want:          "",
			arpdConflicts: true,
		},
		{
			name: "a histogram",
			arpd: "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n",
			want: "# TYPE h histogram\nh_bucket{component=\"arpd\",le=\"1\"} 1\nh_bucket{component=\"arpd\",le=\"+Inf\"} 2\n" +
				"h_sum{component=\"arpd\"} 3\nh_count{component=\"arpd\"} 2\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := "# TYPE own gauge\nown 1\n"
			p := gather.NewPage([]*dto.MetricFamily{parse(t, own)["own"]})
			if err := p.Add("vipd", parse(t, test.vipd)); err != nil {
				t.Error(err)
			}
			if err := p.Add("arpd", parse(t, test.arpd)); errors.Is(err, gather.ErrConflict) != test.arpdConflicts {
				t.Errorf("error %v, want conflict: %t", err, test.arpdConflicts)
			}
			got := strings.Replace(text(t, p), own, "", 1)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

// A page made of whatever a component answers can be read again, and holds
// nothing that is not labelled with the component.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		"", "x 1\n", "# TYPE x counter\nx{a=\"b\"} 1\n", "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 3\nh_count 2\n",
		"# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 3\ns_count 2\n", "# TYPE h histogram\nh 1\n", "# HELP x \\n\\\\\n",
		"x NaN\nx +Inf 12\n", "x{a=\"1\",a=\"2\"} 1\n", "# TYPE x gauge\n# TYPE x counter\nx 1\n", "x{component=\"elector\"} 1\n",
		"{\"a b\"} 1\n", "# TYPE s summary\ns_count 2\ns_count 3\ns{quantile=\"x\"} 1\n", "\x00\xff{", "x{a=\"\xff\"} 1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		families, err := gather.Parse(answer)
		if err != nil {
			return
		}
		p := gather.NewPage(nil)
		if err := p.Add("arpd", families); err != nil {
			t.Fatalf("a component alone conflicts: %v", err)
		}
		page, err := p.Text()
		if err != nil {
			return // left out
		}
		if _, err := gather.Parse(page); err != nil {
			t.Fatalf("page cannot be read: %v\n%s", err, page)
		}
		for line := range bytes.Lines(page) {
			if line[0] != '#' && !bytes.Contains(line, []byte(`component="arpd"`)) {
				t.Errorf("series without its component: %s", line)
			}
		}
	})
}
