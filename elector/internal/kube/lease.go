package kube

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/claim"
)

// How a node's Lease is recognised and what it says besides its claims.
const (
	leasePrefix     = "vipod-"
	labelManagedBy  = "app.kubernetes.io/managed-by"
	managedBy       = "vipod"
	annotationReady = "vipod.io/ready"
	// annotationWriter tells machines apart that have one node's name.
	annotationWriter = "vipod.io/writer"
)

// LeaseName returns the name of a node's Lease.
func LeaseName(node string) string { return leasePrefix + node }

// NodeLease is a node's Lease as read.
type NodeLease struct {
	claim.Lease
	Renewed time.Time
	// Writer is the machine that wrote it, "" if it does not say.
	Writer string
	// Problem says why the Lease could not be read. It is not ready then, and
	// claims what it claimed when it was last readable.
	Problem error
}

// Identity is what this node writes into its Lease.
type Identity struct {
	Node string
	// Writer is this machine, see kube.Writer.
	Writer string
	// NodeUID makes the Lease go with its Node; empty while it is not known.
	NodeUID  types.UID
	Instance string
	Protocol int
	Duration time.Duration
	Acquired time.Time
}

// encodeLease returns the Lease that the update asks for.
func encodeLease(namespace string, id Identity, u claim.Update, now time.Time) (*coordinationv1.Lease, error) {
	claims, err := encodeClaims(id.Instance, id.Protocol, u.Claims)
	if err != nil {
		return nil, err
	}
	seconds := durationSeconds(id.Duration)
	acquired, renewed := metav1.NewMicroTime(id.Acquired), metav1.NewMicroTime(now)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: LeaseName(id.Node), ResourceVersion: formatVersion(u.Base),
			Labels: map[string]string{labelManagedBy: managedBy},
			Annotations: map[string]string{
				AnnotationVIPs: claims, annotationReady: strconv.FormatBool(u.Ready),
			},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &id.Node, LeaseDurationSeconds: &seconds, AcquireTime: &acquired, RenewTime: &renewed,
		},
	}
	if id.Writer != "" {
		l.Annotations[annotationWriter] = id.Writer
	}
	if id.NodeUID != "" {
		l.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: id.Node, UID: id.NodeUID,
		}}
	}
	return l, nil
}

// durationSeconds rounds up: others may wait too long, never too short.
func durationSeconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// decodeLease reads a node's Lease; ok is false for any other Lease.
func decodeLease(l *coordinationv1.Lease) (lease NodeLease, ok bool) {
	node, ok := strings.CutPrefix(l.Name, leasePrefix)
	if !ok || node == "" || l.Labels[labelManagedBy] != managedBy {
		return NodeLease{}, false
	}
	lease.Node, lease.Writer = node, l.Annotations[annotationWriter]
	version, err := parseVersion(l.ResourceVersion)
	if err != nil {
		lease.Problem = err
		return lease, true
	}
	lease.Version = version
	if l.Spec.RenewTime != nil {
		lease.Renewed = l.Spec.RenewTime.Time
	}
	if s := l.Spec.LeaseDurationSeconds; s == nil || *s <= 0 || *s > maxDurationSeconds {
		lease.Problem = fmt.Errorf("leaseDurationSeconds is not 1 to %d", maxDurationSeconds)
		return lease, true
	}
	lease.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	lease.Ready = l.Annotations[annotationReady] == "true"
	if value, ok := l.Annotations[AnnotationVIPs]; ok {
		lease.Claims, lease.Problem = decodeClaims(value)
	}
	if lease.Problem != nil {
		lease.Claims, lease.Ready = nil, false
	}
	return lease, true
}

const maxDurationSeconds = 3600

// parseVersion reads a resourceVersion, which is a positive decimal number
// without leading zeros (comparable within a resource since Kubernetes 1.35;
// etcd's revisions, which fit, before).
func parseVersion(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v == 0 || s[0] == '0' || s[0] == '+' {
		return 0, fmt.Errorf("resourceVersion %q is not a positive number", s)
	}
	return v, nil
}

func formatVersion(v uint64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatUint(v, 10)
}
