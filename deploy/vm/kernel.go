package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// metaPackage depends on the current kernel.
const metaPackage = "linux-image-cloud-amd64"

// Kernel is an unpacked kernel package.
type Kernel struct {
	// Version is the release, as uname -r says it.
	Version string
	root    string
}

// GetKernel returns the kernel in the cache directory, and downloads Debian's
// current one if there is none.
func GetKernel(ctx context.Context, cache string) (Kernel, error) {
	cache, err := filepath.Abs(cache) // programs run elsewhere
	if err != nil {
		return Kernel{}, fmt.Errorf("looking for %s: %w", cache, err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "linux-image-*", "boot", "vmlinuz-*"))
	if err != nil {
		return Kernel{}, fmt.Errorf("looking for a kernel in %s: %w", cache, err)
	}
	if len(found) > 0 {
		return kernelOf(found[len(found)-1]), nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Kernel{}, fmt.Errorf("making the cache: %w", err)
	}
	name, err := currentPackage(ctx)
	if err != nil {
		return Kernel{}, err
	}
	return download(ctx, cache, name)
}

func kernelOf(image string) Kernel {
	return Kernel{
		Version: strings.TrimPrefix(filepath.Base(image), "vmlinuz-"),
		root:    filepath.Dir(filepath.Dir(image)),
	}
}

// currentPackage asks apt for the package that the meta package depends on.
func currentPackage(ctx context.Context) (string, error) {
	name, err := dependency(ctx)
	if err == nil {
		return name, nil
	}
	if _, updateErr := command(ctx, "", "apt-get", "-qq", "update"); updateErr != nil {
		return "", errors.Join(err, updateErr)
	}
	return dependency(ctx)
}

func dependency(ctx context.Context) (string, error) {
	out, err := command(ctx, "", "apt-cache", "depends", metaPackage)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if ok && strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s depends on no kernel", metaPackage)
}

// download unpacks the package beside its place and moves it there when it is
// complete.
func download(ctx context.Context, cache, name string) (k Kernel, err error) {
	tmp, err := os.MkdirTemp(cache, ".download")
	if err != nil {
		return Kernel{}, fmt.Errorf("downloading %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if _, err := command(ctx, tmp, "apt-get", "-qq", "download", name); err != nil {
		return Kernel{}, err
	}
	deb, err := only(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return Kernel{}, err
	}
	root := filepath.Join(tmp, "root")
	if _, err := command(ctx, tmp, "dpkg", "-x", deb, root); err != nil {
		return Kernel{}, err
	}
	image, err := only(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return Kernel{}, err
	}
	// What installing the package would do: note which module needs which.
	if _, err := command(ctx, tmp, "depmod", "-b", root, kernelOf(image).Version); err != nil {
		return Kernel{}, err
	}
	place := filepath.Join(cache, name)
	if err := os.Rename(root, place); err != nil {
		return Kernel{}, fmt.Errorf("keeping %s: %w", name, err)
	}
	return Kernel{Version: kernelOf(image).Version, root: place}, nil
}

// only returns the one file that the pattern fits.
func only(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", pattern, err)
	}
	if len(files) != 1 {
		return "", fmt.Errorf("looking for %s: found %d files, want one", pattern, len(files))
	}
	return files[0], nil
}

func (k Kernel) image() string { return filepath.Join(k.root, "boot", "vmlinuz-"+k.Version) }

// modules returns the files of the named modules and of all they need, in an
// order in which they can be loaded.
func (k Kernel) modules(names []string) ([]string, error) {
	dir := filepath.Join(k.root, "lib", "modules", k.Version)
	data, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("reading the modules' dependencies: %w", err)
	}
	order, err := loadOrder(data, names)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Version, err)
	}
	for i, path := range order {
		order[i] = filepath.Join(dir, path)
	}
	return order, nil
}

// loadOrder reads modules.dep(5): each line has a module's file, a colon, and
// all that it needs, what is needed first last.
func loadOrder(dep []byte, names []string) ([]string, error) {
	needs := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(dep))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, rest, _ := strings.Cut(lines.Text(), ":")
		needs[moduleName(file)] = append([]string{file}, strings.Fields(rest)...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading modules.dep: %w", err)
	}
	var order []string
	seen := map[string]bool{}
	for _, name := range names {
		files, ok := needs[moduleName(name)]
		if !ok {
			return nil, fmt.Errorf("has no module %s", name)
		}
		for i := len(files) - 1; i >= 0; i-- {
			if !seen[files[i]] {
				seen[files[i]] = true
				order = append(order, files[i])
			}
		}
	}
	return order, nil
}

// moduleName is the name by which a module is asked for, with underscores
// as the kernel has it.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// command runs a program and returns its output; what it complained of is in
// the error.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}
