package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/elector/internal/config"
)

func TestWhichServicesAreOurs(t *testing.T) {
	class := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name }
	}
	legacy := config.Services{Enabled: true, Class: "ours", ClassLegacy: true}
	for _, test := range []struct {
		name     string
		settings config.Services
		change   func(*corev1.Service)
		ours     bool
	}{
		{"a load balancer", legacy, func(*corev1.Service) {}, true},
		{"Services switched off", config.Services{Class: "ours", ClassLegacy: true}, func(*corev1.Service) {}, false},
		{"another type", legacy, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, false},
		{"being deleted", legacy, func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: born} }, false},
		{"ignored", legacy, note(annotationIgnore, "true"), false},
		{"ignored with another word", legacy, note(annotationIgnore, "yes"), true},
		{"another namespace", config.Services{Enabled: true, ClassLegacy: true, Namespace: "other"}, func(*corev1.Service) {}, false},
		{"the namespace", config.Services{Enabled: true, ClassLegacy: true, Namespace: "shop"}, func(*corev1.Service) {}, true},
		{"legacy rule, our class", legacy, class("ours"), true},
		{"legacy rule, another class", legacy, class("theirs"), false},
		{"legacy rule, only our class, none set", config.Services{Enabled: true, Class: "ours", ClassLegacy: true, ClassOnly: true},
			func(*corev1.Service) {}, false},
		{"legacy rule, only our class", config.Services{Enabled: true, Class: "ours", ClassLegacy: true, ClassOnly: true}, class("ours"), true},
		{"modern rule, our class", config.Services{Enabled: true, Class: "ours"}, class("ours"), true},
		{"modern rule, another class", config.Services{Enabled: true, Class: "ours"}, class("theirs"), false},
		{"modern rule, none set", config.Services{Enabled: true, Class: "ours"}, func(*corev1.Service) {}, false},
		{"modern rule, none set and ours is empty", config.Services{Enabled: true}, func(*corev1.Service) {}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := world(svc("shop/web", ips("198.51.100.80"), test.change))
			in.Config.Services = test.settings
			if got := len(Plan(in).VIPs) == 1; got != test.ours {
				t.Errorf("ours: %t, want %t", got, test.ours)
			}
		})
	}
}
