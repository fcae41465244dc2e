package kube

import (
	"fmt"
	"os"
)

// Writer returns what tells this machine apart from another one that was given
// the same node name, and stays the same when elector or its pod is replaced:
// the id of the boot and the network namespace, which is the host's.
func Writer(bootID string) (string, error) {
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "", fmt.Errorf("reading this process's network namespace: %w", err)
	}
	return bootID + "/" + ns, nil
}
