package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// root holds one directory per lab.
const root = "/run/vipod-lab"

// Options say what lab to make.
type Options struct {
	// Name tells labs apart: 1 to 12 lower-case letters and digits.
	Name string `json:"name"`
	// Nodes is how many nodes there are; 3 if zero.
	Nodes int `json:"nodes"`
	// BinDir holds the programs cluster, lab and the daemons.
	BinDir string `json:"binDir"`
	// Manifests are YAML files applied once the API server is up.
	Manifests []string `json:"manifests"`
	// Env is the environment of every daemon, "KEY=value" each.
	Env []string `json:"env"`
	// Log gets one line per step; nil discards them.
	Log *slog.Logger `json:"-"`
}

// Lab is a lab that is up.
type Lab struct {
	name     string
	opts     Options
	log      *slog.Logger
	children sync.WaitGroup // processes that this process has to reap
	podMutex sync.Mutex     // one AddPod at a time
	config   *rest.Config
	client   kubernetes.Interface
}

var validName = regexp.MustCompile(`^[a-z0-9]{1,12}$`)

func (o Options) withDefaults() (Options, error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Nodes < 1 || o.Nodes > MaxNodes {
		return o, fmt.Errorf("%d nodes: a lab has 1 to %d", o.Nodes, MaxNodes)
	}
	if err := checkName(o.Name); err != nil {
		return o, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if o.BinDir, err = filepath.Abs(o.BinDir); err != nil {
		return o, fmt.Errorf("finding %s: %w", o.BinDir, err)
	}
	return o, nil
}

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("lab name %q: want 1 to 12 of a-z and 0-9", name)
	}
	return nil
}

// Check says whether labs can run here, and what is missing if not.
func Check(opts Options) error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("a lab needs root, to make network namespaces"))
	}
	for program, pkg := range map[string]string{
		"ip": "iproute2", "nft": "nftables", "setpriv": "util-linux",
	} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("no %s: install the package %s", program, pkg))
		}
	}
	for _, program := range []string{"cluster", "lab"} {
		path := filepath.Join(opts.BinDir, program)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("no program %s: make builds it: %w", path, err))
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			errs = append(errs, fmt.Errorf("%s is not a program", path))
		}
	}
	return errors.Join(errs...)
}

// Up makes a lab: network, API server, Node objects, kube-proxies and one
// pod per node; the daemons are left to StartDaemon. If it fails, or the
// context ends, it leaves nothing behind.
func Up(ctx context.Context, opts Options) (_ *Lab, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := Check(opts); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("making %s: %w", root, err)
	}
	l := &Lab{name: opts.Name, opts: opts, log: opts.Log}
	// Making the directory is what reserves the name.
	if err := os.Mkdir(l.path(), 0o755); errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("lab %q exists already", opts.Name)
	} else if err != nil {
		return nil, fmt.Errorf("making lab %s: %w", opts.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making lab %s: %w", opts.Name, err), l.Down())
		}
	}()
	return l, l.up(ctx)
}

func (l *Lab) up(ctx context.Context) error {
	begin := time.Now()
	if err := l.makeDirs(); err != nil {
		return err
	}
	if err := l.makeCredentials(); err != nil {
		return err
	}
	l.log.Info("starting the API server and making the nodes", "expected", "8s")
	if err := l.makeLAN(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.startControlPlane(groupCtx) })
	group.Go(func() error { return l.makeNodes(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	l.log.Info("API server ready", "after", since(begin))
	if err := l.makeObjects(ctx); err != nil {
		return err
	}
	l.log.Info("starting kube-proxy on each node", "expected", "2s")
	if err := l.startProxies(ctx); err != nil {
		return err
	}
	l.log.Info("lab is up", "name", l.name, "after", since(begin))
	return nil
}

func since(begin time.Time) time.Duration {
	return time.Since(begin).Round(10 * time.Millisecond)
}

// Open returns a lab that another process made.
func Open(name string, log *slog.Logger) (*Lab, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Lab{name: name, log: log}
	err := readJSON(l.path("lab.json"), &l.opts)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no lab %q is up", name)
	}
	if err != nil {
		return nil, fmt.Errorf("opening lab %s: %w", name, err)
	}
	if err := l.connect(); err != nil {
		return nil, fmt.Errorf("opening lab %s: %w", name, err)
	}
	return l, nil
}

// Names returns the labs of this machine, up or half made.
func Names() ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing labs: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Name returns the lab's name.
func (l *Lab) Name() string { return l.name }

// Nodes returns the names of the nodes: n1, n2, and so on.
func (l *Lab) Nodes() []string {
	nodes := make([]string, l.opts.Nodes)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("n%d", i+1)
	}
	return nodes
}

// checkNode returns an error unless the lab has this node.
func (l *Lab) checkNode(node string) error {
	i, err := nodeIndex(node)
	if err != nil || i > l.opts.Nodes {
		return fmt.Errorf("no node %q: lab %s has n1 to n%d", node, l.name, l.opts.Nodes)
	}
	return nil
}

// NS returns the name of a role's network namespace, as "ip netns" takes it.
func (l *Lab) NS(role string) string { return nsName(l.name, role) }

// InNS runs f on a thread that is in the role's network namespace. Sockets
// that f opens stay there; goroutines that f starts are not there.
func (l *Lab) InNS(role string, f func() error) error { return enter(l.NS(role), f) }

// Exec runs a command in the role's namespace and returns what it printed.
func (l *Lab) Exec(ctx context.Context, role string, argv ...string) ([]byte, error) {
	return run(ctx, "", append([]string{"ip", "netns", "exec", l.NS(role)}, argv...)...)
}

// path returns a path in the lab's directory.
func (l *Lab) path(parts ...string) string {
	return filepath.Join(append([]string{root, l.name}, parts...)...)
}

// StateDir returns the state directory of a node's daemons.
func (l *Lab) StateDir(node string) string { return l.path(node, "state") }

// LogPath returns the log of a role's process, such as "n1" and "elector".
func (l *Lab) LogPath(role, process string) string {
	return l.path("logs", role+"-"+process+".log")
}

// Role is a namespace of a lab and the addresses that it was given.
type Role struct {
	Name  string
	Addrs Addrs
}

// Roles returns the lab's namespaces: the fixed ones, the nodes, the pods.
func (l *Lab) Roles() ([]Role, error) {
	roles := []Role{{"lan", RouterAddrs()}, {"cp", APIAddrs()}, {"client", ClientAddrs()}}
	for i, node := range l.Nodes() {
		roles = append(roles, Role{node, lanAddrs(10 + i + 1)})
	}
	pods, err := l.Pods()
	for _, pod := range pods {
		roles = append(roles, Role{pod.Name, pod.Addrs})
	}
	return roles, err
}
