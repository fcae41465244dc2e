package kube

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vipod/vipod/shared/trigger"
)

// pods follows the pods of one node while somebody wants to know them. Most
// clusters never do, and then nothing is read.
type pods struct {
	store *Store[*corev1.Pod]
	woken *trigger.Trigger

	mu     sync.Mutex
	wanted bool
}

// pods returns what follows the pods of a node.
func (c *Client) pods(node string, notify func(kind string)) *pods {
	s := c.source(c.core, "pods", func() runtime.Object { return &corev1.PodList{} })
	s.fields = fields.OneTermEqualSelector("spec.nodeName", node).String()
	return &pods{store: newStore(s, stripPod, notify), woken: trigger.New()}
}

// stripPod leaves what says whose pod it is, where, and whether it serves:
// containers, volumes and their environment are nobody's business here.
func stripPod(p *corev1.Pod) {
	stripMeta(p)
	p.ObjectMeta = metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: p.Labels, Annotations: p.Annotations,
		DeletionTimestamp: p.DeletionTimestamp, ResourceVersion: p.ResourceVersion,
	}
	if len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork}
	p.Status = corev1.PodStatus{
		Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs,
		Conditions: slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type != corev1.PodReady }),
	}
}

// follow says whether the pods are wanted.
func (p *pods) follow(want bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted != want {
		p.wanted = want
		p.woken.Fire()
	}
}

func (p *pods) isWanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// run follows the pods while they are wanted, until ctx ends.
func (p *pods) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	stop := func() {}
	defer func() { stop() }()
	for follows := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-p.woken.C():
		}
		switch want := p.isWanted(); {
		case want && !follows:
			work, cancel := context.WithCancel(ctx)
			stop, follows = cancel, true
			running.Go(func() { p.store.Run(work) })
		case !want && follows:
			stop()
			running.Wait()
			p.store.forget()
			follows = false
		}
	}
}

// FollowPods says whether the pods of this node are wanted. It returns at once.
func (k *Cluster) FollowPods(want bool) { k.pods.follow(want) }

// PodsSynced says whether the pods of this node are known.
func (k *Cluster) PodsSynced() bool { return k.pods.store.Synced() }

// Pods returns the pods of this node, if they are wanted.
func (k *Cluster) Pods() []*corev1.Pod { return k.pods.store.List() }
