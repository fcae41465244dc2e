package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Pod is a namespace behind a node, with a server on HTTPPort and UDPPort.
type Pod struct {
	Name string `json:"name"`
	Node string `json:"node"`
	Addrs
}

// AddPod makes another pod on a node and returns it once it serves.
func (l *Lab) AddPod(ctx context.Context, node string) (Pod, error) {
	if err := l.checkNode(node); err != nil {
		return Pod{}, err
	}
	l.podMutex.Lock()
	defer l.podMutex.Unlock()
	pods, err := l.Pods()
	if err != nil {
		return Pod{}, err
	}
	highest := l.opts.Nodes
	for _, p := range pods {
		highest = max(highest, podNumber(p.Name))
	}
	name := fmt.Sprintf("p%d", highest+1)
	if err := l.addPod(ctx, name, node); err != nil {
		return Pod{}, err
	}
	return l.Pod(name)
}

func podNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "p"))
	return n
}

// addPod makes the pod's namespace, connects it to its node by a routed link
// and starts its server.
func (l *Lab) addPod(ctx context.Context, name, node string) error {
	pod, err := l.placePod(name, node)
	if err != nil {
		return err
	}
	index, err := nodeIndex(node)
	if err != nil {
		return err
	}
	ns, gateway := l.NS(name), podRangeOf(index).gateway
	if err := addNamespace(ctx, ns); err != nil {
		return err
	}
	link := "pod-" + name
	err = ipBatch(ctx, l.NS(node),
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", link, ns),
		fmt.Sprintf("addr add %s/32 dev %s", gateway.V4, link),
		fmt.Sprintf("addr add %s/128 dev %s nodad", gateway.V6, link),
		fmt.Sprintf("link set %s up", link),
		fmt.Sprintf("route add %s dev %s src %s", pod.V4, link, gateway.V4),
		fmt.Sprintf("route add %s dev %s", pod.V6, link))
	if err != nil {
		return fmt.Errorf("connecting pod %s to %s: %w", name, node, err)
	}
	err = ipBatch(ctx, ns,
		fmt.Sprintf("addr add %s/32 dev eth0", pod.V4),
		fmt.Sprintf("addr add %s/128 dev eth0 nodad", pod.V6),
		"link set eth0 up",
		fmt.Sprintf("route add %s dev eth0", gateway.V4),
		fmt.Sprintf("route add default via %s", gateway.V4),
		fmt.Sprintf("route add %s dev eth0", gateway.V6),
		fmt.Sprintf("route add default via %s", gateway.V6))
	if err != nil {
		return fmt.Errorf("configuring pod %s: %w", name, err)
	}
	return l.StartPod(ctx, name)
}

// placePod chooses the pod's addresses and records it.
func (l *Lab) placePod(name, node string) (Pod, error) {
	pods, err := l.Pods()
	if err != nil {
		return Pod{}, err
	}
	index, err := nodeIndex(node)
	if err != nil {
		return Pod{}, err
	}
	used := 0
	for _, p := range pods {
		if p.Node == node {
			used++
		}
	}
	if used == MaxPods {
		return Pod{}, fmt.Errorf("adding pod %s: %s has %d already", name, node, MaxPods)
	}
	pod := Pod{Name: name, Node: node, Addrs: podRangeOf(index).pod(used)}
	return pod, writeJSON(l.path("pods", name+".json"), pod)
}

// StartPod starts a pod's server again after StopPod.
func (l *Lab) StartPod(ctx context.Context, name string) error {
	p, err := l.start(ctx, program{
		role: name, name: "server", argv: []string{l.bin("lab"), "pod", "--name", name},
	})
	if err != nil {
		return err
	}
	return l.awaitPort(ctx, p, fmt.Sprintf("127.0.0.1:%d", HTTPPort))
}

// StopPod kills a pod's server; the pod's addresses stay.
func (l *Lab) StopPod(ctx context.Context, name string) error {
	return l.stopProcess(ctx, name, "server", sigKill)
}

// Pod returns the pod of that name.
func (l *Lab) Pod(name string) (Pod, error) {
	var pod Pod
	err := readJSON(l.path("pods", name+".json"), &pod)
	if errors.Is(err, os.ErrNotExist) {
		return Pod{}, fmt.Errorf("no pod %q in lab %s", name, l.name)
	}
	return pod, err
}

// Pods returns the pods in the order of their numbers.
func (l *Lab) Pods() ([]Pod, error) {
	paths, err := filepath.Glob(l.path("pods", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var pods []Pod
	for _, path := range paths {
		var pod Pod
		if err := readJSON(path, &pod); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return podNumber(a.Name) - podNumber(b.Name) })
	return pods, nil
}
