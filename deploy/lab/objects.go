package lab

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/shared/ownership"
)

// Namespace and ServiceAccount are what the elector runs as.
const (
	Namespace      = "kube-system"
	ServiceAccount = "vipod"
)

// labelControlPlane marks a node that runs the control plane.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

// makeObjects makes what a cluster has before vipod comes: Node objects, the
// manifests, and for each elector a token of its ServiceAccount.
func (l *Lab) makeObjects(ctx context.Context) error {
	for _, namespace := range []string{"default", Namespace} {
		if err := l.awaitNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	for i, node := range l.Nodes() {
		if err := l.makeNodeObject(ctx, node, i+1); err != nil {
			return err
		}
	}
	for _, path := range l.opts.Manifests {
		if err := l.Apply(ctx, path); err != nil {
			return err
		}
	}
	return l.makeTokens(ctx)
}

// awaitNamespace waits for a namespace that the API server makes by itself.
func (l *Lab) awaitNamespace(ctx context.Context, name string) error {
	for {
		_, err := l.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if pauseErr := pause(ctx, 20*time.Millisecond); pauseErr != nil {
			return fmt.Errorf("waiting for namespace %s: %w (last: %w)", name, pauseErr, err)
		}
	}
}

func (l *Lab) makeNodeObject(ctx context.Context, name string, index int) error {
	pods := podRangeOf(index)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelHostname: name, labelControlPlane: ""},
		},
		Spec: corev1.NodeSpec{
			PodCIDR:  pods.prefix4.String(),
			PodCIDRs: []string{pods.prefix4.String(), pods.prefix6.String()},
		},
	}
	created, err := l.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making Node %s: %w", name, err)
	}
	created.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, addr := range lanAddrs(10 + index).Slice() {
		created.Status.Addresses = append(created.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: addr.String()})
	}
	created.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := l.client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of Node %s: %w", name, err)
	}
	return nil
}

// makeTokens gives each node's elector a token and a kubeconfig that nobody
// else but root can read. The kubeconfig leads to the node's own relay.
func (l *Lab) makeTokens(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: ServiceAccount}}
	_, err := l.client.CoreV1().ServiceAccounts(Namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making ServiceAccount %s: %w", ServiceAccount, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range l.Nodes() {
		group.Go(func() error {
			if err := l.makeToken(ctx, node); err != nil {
				return fmt.Errorf("making the token of %s: %w", node, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (l *Lab) makeToken(ctx context.Context, node string) error {
	lifetime := int64(24 * 3600)
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	answer, err := l.client.CoreV1().ServiceAccounts(Namespace).
		CreateToken(ctx, ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(l.path("pki", "ca.crt"))
	if err != nil {
		return err
	}
	token, config := l.path(node, "api", "token"), l.Kubeconfig(node)
	for path, data := range map[string][]byte{
		token: []byte(answer.Status.Token),
		config: kubeconfig{
			server: fmt.Sprintf("https://127.0.0.1:%d", APIPort), ca: ca, tokenFile: token,
		}.yaml(),
	} {
		if err := os.WriteFile(path, data, 0o400); err != nil {
			return err
		}
		if err := os.Chown(path, ownership.UID(ownership.Elector), ownership.Group); err != nil {
			return err
		}
	}
	return nil
}

// Kubeconfig returns the path of the kubeconfig of a node's elector.
func (l *Lab) Kubeconfig(node string) string { return l.path(node, "api", "kubeconfig") }

// AdminKubeconfig returns the path of a kubeconfig with all rights, which
// works in every namespace of the LAN.
func (l *Lab) AdminKubeconfig() string { return l.path("pki", "admin.kubeconfig") }
