package manifests

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// rights is what rbac.yaml holds.
type rights struct {
	account        corev1.ServiceAccount
	clusterRole    rbacv1.ClusterRole
	clusterBinding rbacv1.ClusterRoleBinding
	role           rbacv1.Role
	binding        rbacv1.RoleBinding
}

func readRights(t *testing.T) rights {
	t.Helper()
	var r rights
	into := map[string]any{
		"ServiceAccount": &r.account, "ClusterRole": &r.clusterRole, "ClusterRoleBinding": &r.clusterBinding,
		"Role": &r.role, "RoleBinding": &r.binding,
	}
	for doc := range bytes.SplitSeq(read(t, "rbac.yaml"), []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		obj, ok := into[kind.Kind]
		if !ok {
			t.Fatalf("kind %q is unexpected or there twice", kind.Kind)
		}
		decode(t, doc, obj)
		delete(into, kind.Kind)
	}
	if len(into) > 0 {
		t.Fatalf("missing: %v", into)
	}
	return r
}

// table prints one line per scope and resource.
func table(scope string, rules []rbacv1.PolicyRule) string {
	var out strings.Builder
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				fmt.Fprintf(&out, "%s %s/%s: %s\n", scope, group, resource, strings.Join(rule.Verbs, " "))
			}
		}
	}
	return out.String()
}

func TestRightsAreTheGoldenOnes(t *testing.T) {
	r := readRights(t)
	got := table("cluster", r.clusterRole.Rules) + table(r.role.Namespace, r.role.Rules)
	const golden = "testdata/rbac.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, golden)), got); diff != "" {
		t.Errorf("rights changed (-golden +now):\n%s", diff)
	}
}

func TestRightsHoldNoSecretsNoWildcardsAndNoWritesBesideStatusAndLeases(t *testing.T) {
	r := readRights(t)
	writes := map[string]bool{"services/status": true, "events": true, "leases": true}
	forbidden := []string{"secrets", "configmaps", "roles", "clusterroles", "serviceaccounts"}
	for _, rule := range slices.Concat(r.clusterRole.Rules, r.role.Rules) {
		all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
		if slices.Contains(all, "*") || len(rule.NonResourceURLs) > 0 {
			t.Errorf("wildcard or URL in %+v", rule)
		}
		for _, resource := range rule.Resources {
			if slices.Contains(forbidden, resource) {
				t.Errorf("right on %s", resource)
			}
			for _, verb := range rule.Verbs {
				reads := verb == "get" || verb == "list" || verb == "watch"
				if !reads && !writes[resource] || strings.HasPrefix(verb, "delete") {
					t.Errorf("%s on %s", verb, resource)
				}
			}
		}
	}
}

func TestRightsBelongToTheAccountOfTheDaemonSet(t *testing.T) {
	r := readRights(t)
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: r.account.Name, Namespace: r.account.Namespace}}
	for _, got := range [][]rbacv1.Subject{r.clusterBinding.Subjects, r.binding.Subjects} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
	}
	refs := []string{r.clusterBinding.RoleRef.Kind + " " + r.clusterBinding.RoleRef.Name, r.binding.RoleRef.Kind + " " + r.binding.RoleRef.Name}
	if diff := cmp.Diff([]string{"ClusterRole " + r.clusterRole.Name, "Role " + r.role.Name}, refs); diff != "" {
		t.Errorf("roles bound (-want +got):\n%s", diff)
	}
	if account := pods(t)["daemonset.yaml"].ServiceAccountName; account != r.account.Name {
		t.Errorf("the DaemonSet runs as %q, the rights are of %q", account, r.account.Name)
	}
}
