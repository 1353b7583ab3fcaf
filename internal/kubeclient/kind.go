// SPDX-License-Identifier: Apache-2.0

package kubeclient

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// pointer is the type *T of an object.
type pointer[T any] interface {
	*T
	runtime.Object
	GetName() string
}

// list is the type *L of a list of objects.
type list[L any] interface {
	*L
	runtime.Object
}

// Kind reads and writes the objects of a kind, in a namespace if the kind has namespaces.
type Kind[T any, P pointer[T]] struct {
	client     rest.Interface
	parameters runtime.ParameterCodec
	resource   string
	namespace  string
}

// about completes a request with the resource, the name of the object or "", and options.
func (k *Kind[T, P]) about(r *rest.Request, name string, options runtime.Object) *rest.Request {
	r = r.NamespaceIfScoped(k.namespace, k.namespace != "").Resource(k.resource)
	if name != "" {
		r = r.Name(name)
	}
	if options != nil {
		r = r.VersionedParams(options, k.parameters)
	}
	return r
}

// answer sends a request, and returns the object of the answer.
func answer[T any, P pointer[T]](ctx context.Context, r *rest.Request) (P, error) {
	object := P(new(T))
	err := r.Do(ctx).Into(object)
	return object, err
}

// Get returns an object.
func (k *Kind[T, P]) Get(ctx context.Context, name string, o metav1.GetOptions) (P, error) {
	return answer[T, P](ctx, k.about(k.client.Get(), name, &o))
}

// Create creates an object, and returns it as stored.
func (k *Kind[T, P]) Create(ctx context.Context, object P, o metav1.CreateOptions) (P, error) {
	return answer[T, P](ctx, k.about(k.client.Post(), "", &o).Body(object))
}

// Update replaces an object, and returns it as stored.
func (k *Kind[T, P]) Update(ctx context.Context, object P, o metav1.UpdateOptions) (P, error) {
	return answer[T, P](ctx, k.about(k.client.Put(), object.GetName(), &o).Body(object))
}

// Patch changes an object or a subresource, and returns the object as stored.
func (k *Kind[T, P]) Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (P, error) {
	return answer[T, P](ctx, k.about(k.client.Patch(t), name, &o).SubResource(subresources...).Body(data))
}

// Delete deletes an object.
func (k *Kind[T, P]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return k.about(k.client.Delete(), name, nil).Body(&o).Do(ctx).Error()
}

// Watch returns after the server has accepted the watch.
func (k *Kind[T, P]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return k.about(k.client.Get(), "", &o).Timeout(limit(o)).Watch(ctx)
}

// limit returns the time limit of a list or watch, 0 for none.
func limit(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*o.TimeoutSeconds) * time.Second
}

// ListKind is a Kind whose objects can be listed.
type ListKind[T, L any, P pointer[T], Q list[L]] struct{ Kind[T, P] }

// List returns the objects that the options select.
func (k *ListKind[T, L, P, Q]) List(ctx context.Context, o metav1.ListOptions) (Q, error) {
	all := Q(new(L))
	err := k.about(k.client.Get(), "", &o).Timeout(limit(o)).Do(ctx).Into(all)
	return all, err
}
