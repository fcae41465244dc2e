package sock_test

import (
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
)

func TestNetnsProfileIsThereOnlyWhenItIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        bool
	}{{"off", "", false}, {"another value", "1", false}, {"on", "true", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(sock.ProfileEnv, test.value)
			dir := newStateDir(t)
			uid := ownership.UID(ownership.Elector)
			serve(t, dir, uid, answer("the daemon's own"))
			profile, err := sock.NewClient(dir, ownership.Elector).Get(t.Context(), "/debug/pprof/profile?seconds=1")
			if got := err == nil && strings.HasPrefix(string(profile), "\x1f\x8b"); got != test.want { // gzip
				t.Errorf("a profile is answered: %t, want %t (%v)", got, test.want, err)
			}
			if _, err := sock.NewClient(dir, ownership.Elector).Get(t.Context(), "/status"); err != nil {
				t.Errorf("the daemon's own answer: %v", err)
			}
		})
	}
}
