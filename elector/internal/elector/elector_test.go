package elector

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/daemon"
)

func TestCheckWarnsOfSettingsThatChangeNothing(t *testing.T) {
	env := map[string]string{"svc_enable": "true", "vip_nodename": "n1", "svc_leasename": "x", "vip_inteface": "eth0"}
	e := Elector{
		LookupEnv: func(name string) (string, bool) { text, ok := env[name]; return text, ok },
		Environ: func() []string {
			var all []string
			for _, name := range slices.Sorted(maps.Keys(env)) {
				all = append(all, name+"="+env[name])
			}
			return all
		},
	}
	var log bytes.Buffer
	if err := e.Check(&daemon.Env{Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"svc_leasename", "did you mean vip_interface?"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no warning of %s in\n%s", want, &log)
		}
	}
}
