package kube

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// newCodecs returns the codecs of exactly the types that elector reads and
// writes. The linker drops the methods of all others, which a full clientset
// would keep.
func newCodecs() (serializer.CodecFactory, runtime.ParameterCodec) {
	s := runtime.NewScheme()
	add := func(gv schema.GroupVersion, objects ...runtime.Object) {
		s.AddKnownTypes(gv, objects...)
		metav1.AddToGroupVersion(s, gv)
	}
	add(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{}, &corev1.Node{}, &corev1.NodeList{},
		&corev1.Pod{}, &corev1.PodList{})
	add(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	add(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	add(eventsv1.SchemeGroupVersion, &eventsv1.Event{}, &eventsv1.EventList{})
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(s), runtime.NewParameterCodec(s)
}
