package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply applies every object of a YAML file, as "kubectl apply
// --server-side" does.
func (l *Lab) Apply(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	defer file.Close()
	groups, err := restmapper.GetAPIGroupResources(l.client.Discovery())
	if err != nil {
		return fmt.Errorf("asking for the kinds of objects: %w", err)
	}
	client, err := dynamic.NewForConfig(l.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	a := applier{mapper: restmapper.NewDiscoveryRESTMapper(groups), client: client}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decoding %s: %w", path, err)
		}
		if len(object.Object) == 0 {
			continue // a comment between two separators
		}
		if err := a.apply(ctx, &object); err != nil {
			return fmt.Errorf("applying %s %s of %s: %w", object.GetKind(), object.GetName(), path, err)
		}
	}
}

// applier applies objects of any kind.
type applier struct {
	mapper meta.RESTMapper
	client dynamic.Interface
}

func (a applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	force := true
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "lab", Force: &force})
	return err
}
