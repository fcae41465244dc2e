package linkd

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vipod/vipod/shared/statetest"
)

// radvd runs a router that tells hosts to ask DHCPv6, and to make addresses of
// a prefix themselves.
func (w *world) radvd() *server {
	w.t.Helper()
	config := filepath.Join(w.dir, "radvd.conf")
	w.must(os.WriteFile(config, []byte(`interface lan0 {
	AdvSendAdvert on;
	AdvManagedFlag on;
	MinRtrAdvInterval 3;
	MaxRtrAdvInterval 4;
	prefix 2001:db8::/64 { AdvAutonomous on; };
};
`), 0o600))
	s := w.run("radvd", "--nodaemon", "--logmethod=stderr", "--config="+config, "--pidfile="+filepath.Join(w.dir, "radvd.pid"))
	statetest.Eventually(w.t, "radvd reads its configuration", func() bool { return s.said("version") > 0 })
	return s
}

// ip runs ip on the node and returns what it prints.
func (w *world) ip(args ...string) (text string) {
	w.t.Helper()
	w.must(w.node.Do(func() error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		text = string(out)
		return err
	}))
	return text
}
