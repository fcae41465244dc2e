// Package manifests holds what is applied to a cluster; its tests hold the
// manifests against the ownership table, so that a privilege or a mount
// changes in both or not at all.
package manifests

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/vipod/vipod/shared/ownership"
)

// decode reads one object and refuses fields that the API does not have.
func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pods returns the pod of each manifest by the manifest's name.
func pods(t *testing.T) map[string]corev1.PodSpec {
	t.Helper()
	var ds appsv1.DaemonSet
	decode(t, read(t, "daemonset.yaml"), &ds)
	if diff := cmp.Diff(ds.Spec.Selector.MatchLabels, ds.Spec.Template.Labels); diff != "" {
		t.Errorf("selector and labels differ: %s", diff)
	}
	var pod corev1.Pod
	decode(t, read(t, "static-pod.yaml"), &pod)
	return map[string]corev1.PodSpec{"daemonset.yaml": ds.Spec.Template.Spec, "static-pod.yaml": pod.Spec}
}

// eachPod runs the test on the pod of each manifest.
func eachPod(t *testing.T, test func(t *testing.T, pod corev1.PodSpec)) {
	t.Helper()
	for name, pod := range pods(t) {
		t.Run(name, func(t *testing.T) { test(t, pod) })
	}
}

func container(t *testing.T, list []corev1.Container, name string) corev1.Container {
	t.Helper()
	i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no container %s", name)
	}
	return list[i]
}

func TestPodHasOneContainerAndOneInitContainerPerDaemon(t *testing.T) {
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		var got, want []string
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			got = append(got, strings.Join(append([]string{c.Name}, c.Command...), " "))
		}
		for _, d := range ownership.Table() {
			want = append(want, fmt.Sprintf("prepare-%s /%s prepare", d.Name, d.Name))
		}
		for _, d := range ownership.Table() {
			want = append(want, fmt.Sprintf("%s /%s", d.Name, d.Name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("containers and commands (-want +got):\n%s", diff)
		}
	})
}

func TestSecurityContextIsTheTables(t *testing.T) {
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		for _, d := range ownership.Table() {
			want := &corev1.SecurityContext{
				RunAsUser: new(int64(d.UID)), RunAsGroup: new(int64(ownership.Group)),
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
			for _, c := range d.Capabilities {
				want.Capabilities.Add = append(want.Capabilities.Add, corev1.Capability(c))
			}
			for _, c := range []corev1.Container{
				container(t, pod.Containers, d.Name), container(t, pod.InitContainers, "prepare-"+d.Name),
			} {
				if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
					t.Errorf("securityContext of %s (-want +got):\n%s", c.Name, diff)
				}
			}
		}
		want := &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), FSGroup: new(int64(ownership.Group)),
			SupplementalGroups: []int64{ownership.Group},
			SeccompProfile:     &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		if diff := cmp.Diff(want, pod.SecurityContext); diff != "" {
			t.Errorf("securityContext of the pod (-want +got):\n%s", diff)
		}
		if !pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Error("the pod shares more or less of the host than its network")
		}
	})
}

func TestDaemonWritesOnlyItsOwnDirectory(t *testing.T) {
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		for _, d := range ownership.Table() {
			got := slices.DeleteFunc(slices.Clone(container(t, pod.Containers, d.Name).VolumeMounts),
				func(m corev1.VolumeMount) bool { return m.Name != "state" })
			want := []corev1.VolumeMount{
				{Name: "state", MountPath: ownership.DefaultStateDir, ReadOnly: true},
				{Name: "state", MountPath: ownership.Dir(ownership.DefaultStateDir, d.Name), SubPath: d.Name},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("mounts of %s (-want +got):\n%s", d.Name, diff)
			}
		}
		for _, c := range pod.InitContainers {
			want := []corev1.VolumeMount{{Name: "state", MountPath: ownership.DefaultStateDir}}
			if diff := cmp.Diff(want, c.VolumeMounts); diff != "" {
				t.Errorf("mounts of %s (-want +got):\n%s", c.Name, diff)
			}
		}
	})
}

// secrets are the volumes of secrets besides credentials of the API, by the one
// daemon that mounts each.
var secrets = map[string]string{ownership.Bgpd: "bgp-passwords at /etc/vipod/bgp", ownership.Egressd: "wireguard at /etc/vipod/wireguard"}

// isSecret says whether a volume is one of them.
func isSecret(v corev1.Volume) bool {
	for _, s := range secrets {
		if name, _, _ := strings.Cut(s, " "); name == v.Name {
			return true
		}
	}
	return false
}

func TestOnlyTheTokensOwnerCanReachTheAPI(t *testing.T) {
	credential := map[string]string{
		"daemonset.yaml":  "token at /var/run/secrets/kubernetes.io/serviceaccount",
		"static-pod.yaml": "kubeconfig at /etc/kubernetes",
	}
	for file, pod := range pods(t) {
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s gives every container a token", file)
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			d, _ := ownership.Lookup(c.Name)
			var got, want []string
			for _, m := range c.VolumeMounts {
				if m.Name == "state" {
					continue
				}
				got = append(got, m.Name+" at "+m.MountPath)
				if !m.ReadOnly {
					t.Errorf("%s: %s can write to %s", file, c.Name, m.Name)
				}
			}
			if d.Token {
				want = append(want, credential[file])
			}
			if secret, ok := secrets[d.Name]; ok {
				want = append(want, secret)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: other mounts of %s (-want +got):\n%s", file, c.Name, diff)
			}
			if len(c.EnvFrom) > 0 {
				t.Errorf("%s: %s takes its environment from an object of the API", file, c.Name)
			}
		}
	}
}

func TestStateDirectoryIsInMemoryAndOnlyTheStaticPodSeesTheHost(t *testing.T) {
	for file, pod := range pods(t) {
		for _, v := range pod.Volumes {
			switch {
			case v.Name == "state":
				if e := v.EmptyDir; e == nil || e.Medium != corev1.StorageMediumMemory || e.SizeLimit == nil {
					t.Errorf("%s: state is not an emptyDir in memory with a size limit: %+v", file, v)
				}
			case v.HostPath != nil && (file != "static-pod.yaml" || v.Name != "kubeconfig" && !isSecret(v)):
				t.Errorf("%s: volume %s is a hostPath", file, v.Name)
			case v.Secret != nil && !isSecret(v):
				t.Errorf("%s: volume %s is a Secret", file, v.Name)
			}
		}
	}
}

func TestStaticPodUsesNoObjectOfTheAPI(t *testing.T) {
	pod := pods(t)["static-pod.yaml"]
	if pod.ServiceAccountName != "" {
		t.Errorf("serviceAccountName is %q", pod.ServiceAccountName)
	}
	for _, v := range pod.Volumes {
		if v.EmptyDir == nil && v.HostPath == nil {
			t.Errorf("volume %s is neither emptyDir nor hostPath", v.Name)
		}
	}
	if pod.Affinity != nil {
		t.Error("has an affinity, which nobody would read")
	}
}

func TestPodStopsAndStartsAsTheDaemonsExpect(t *testing.T) {
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		// A daemon works on for up to 20 s after its SIGTERM.
		if g := pod.TerminationGracePeriodSeconds; g == nil || *g != 30 {
			t.Errorf("terminationGracePeriodSeconds is %v, want 30", g)
		}
		if pod.PriorityClassName != "system-node-critical" {
			t.Errorf("priorityClassName is %q", pod.PriorityClassName)
		}
		for _, c := range pod.Containers {
			// A rolling update goes on when the daemon does its work.
			for question, p := range map[string]*corev1.Probe{"healthz": c.LivenessProbe, "readyz": c.ReadinessProbe} {
				want := []string{"/" + c.Name, question}
				if p == nil || p.Exec == nil || !slices.Equal(p.Exec.Command, want) {
					t.Errorf("a probe of %s does not run %v", c.Name, want)
				} else if p.TimeoutSeconds <= 5 { // the daemon's own limit
					t.Errorf("a probe of %s ends before its answer: %d s", c.Name, p.TimeoutSeconds)
				}
			}
		}
	})
}

func TestImagesHaveOneTagPerDaemonAndTheSameInEveryManifest(t *testing.T) {
	tags := map[string]string{}
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			name := strings.TrimPrefix(c.Name, "prepare-")
			tag, ok := strings.CutPrefix(c.Image, "ghcr.io/vipod/"+name+":v")
			if !ok {
				t.Errorf("image of %s is %s", c.Name, c.Image)
			}
			if old, seen := tags[name]; seen && old != tag {
				t.Errorf("%s has two tags, %s and %s", name, old, tag)
			}
			tags[name] = tag
		}
	})
}

func TestElectorKnowsItsNode(t *testing.T) {
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		env := container(t, pod.Containers, ownership.Elector).Env
		i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "vip_nodename" })
		if i < 0 || env[i].ValueFrom == nil || env[i].ValueFrom.FieldRef == nil ||
			env[i].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
			t.Error("vip_nodename does not come from spec.nodeName")
		}
	})
}
