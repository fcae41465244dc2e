package routed

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// anycastPods has the lab's pods share two addresses of their own: nodes route
// to pods that are ready and not being deleted, and the router spreads over
// the nodes.
func anycastPods(c *cluster) {
	ips, pods := c.next(), c.pods()
	c.serviceAccount()
	for _, name := range pods {
		c.anycastPod(name, ips)
	}
	c.awaitHops(3, ips...)
	for _, ip := range ips {
		_, err := c.AwaitAnswer(c.ctx, netip.AddrPortFrom(ip, lab.HTTPPort))
		c.must(err)
	}
	second, err := c.AddPod(c.ctx, "n1")
	c.must(err)
	c.anycastPod(second.Name, ips)
	c.eventually("n1 spreads over its two pods", func() bool { return strings.Count(c.podRoutes("n1", ips[0]), "nexthop via") == 2 })
	c.setReady(second.Name, false)
	c.eventually("n1 has one pod that serves", func() bool { return strings.Count(c.podRoutes("n1", ips[0]), "nexthop") == 0 })
	c.awaitHops(3, ips...)
	api := c.Client().CoreV1().Pods(metav1.NamespaceDefault)
	two, err := c.Pod(pods[1])
	c.must(err)
	c.must(api.Delete(c.ctx, two.Name, metav1.DeleteOptions{})) // marked alone: nothing here would end it
	c.awaitHops(2, ips...)
	c.eventually("the node has no route to it", func() bool { return c.podRoutes(two.Node, ips[0]) == "" })
	now := int64(0)
	for _, name := range append(pods, second.Name) {
		c.must(api.Delete(c.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	c.awaitHops(0, ips...)
}

// serviceAccount makes the one that the API server gives to pods.
func (c *cluster) serviceAccount() {
	c.t.Helper()
	_, err := c.Client().CoreV1().ServiceAccounts(metav1.NamespaceDefault).
		Create(c.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	c.must(err)
}

// anycastPod gives a pod addresses on its loopback, and the API server the
// object that a whole cluster would have for it.
func (c *cluster) anycastPod(name string, ips []netip.Addr) {
	c.t.Helper()
	pod, err := c.Pod(name)
	c.must(err)
	var texts []string
	for _, ip := range ips {
		_, err := c.Exec(c.ctx, name, "ip", "address", "add", netip.PrefixFrom(ip, ip.BitLen()).String(), "dev", "lo")
		c.must(err)
		texts = append(texts, ip.String())
	}
	no := false
	object, err := c.Client().CoreV1().Pods(metav1.NamespaceDefault).Create(c.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"vipod.io/anycast": strings.Join(texts, ",")}},
		Spec: corev1.PodSpec{
			NodeName: pod.Node, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "server", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	c.must(err)
	object.Status.Phase = corev1.PodRunning
	object.Status.PodIP = pod.V4.String()
	object.Status.PodIPs = []corev1.PodIP{{IP: pod.V4.String()}, {IP: pod.V6.String()}}
	_, err = c.Client().CoreV1().Pods(metav1.NamespaceDefault).UpdateStatus(c.ctx, object, metav1.UpdateOptions{})
	c.must(err)
	c.setReady(name, true)
}

func (c *cluster) setReady(name string, ready bool) {
	c.t.Helper()
	api := c.Client().CoreV1().Pods(metav1.NamespaceDefault)
	object, err := api.Get(c.ctx, name, getOptions)
	c.must(err)
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	object.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	_, err = api.UpdateStatus(c.ctx, object, metav1.UpdateOptions{})
	c.must(err)
}

// podRoutes returns a node's routes of ours to pods with an address.
func (c *cluster) podRoutes(node string, ip netip.Addr) string {
	out, err := c.Exec(c.ctx, node, "ip", "route", "show", ip.String(), "proto", "248")
	if err != nil {
		return err.Error()
	}
	return string(out)
}
