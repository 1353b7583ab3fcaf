// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// ObjectsClient reads ConfigMaps and Secrets; client-go's CoreV1() is one.
type ObjectsClient interface {
	corev1.ConfigMapsGetter
	corev1.SecretsGetter
}

// content is an object as the server has it: one of the two kinds, or neither if there is none. It is not written to.
type content struct {
	configMap *v1.ConfigMap
	secret    *v1.Secret
}

// contentOf returns what of an object of the server is kept.
func contentOf(o runtime.Object) (content, bool) {
	switch o := o.(type) {
	case *v1.ConfigMap:
		o.ManagedFields = nil // as large as the rest, and of use to nobody here
		return content{configMap: o}, true
	case *v1.Secret:
		o.ManagedFields = nil
		return content{secret: o}, true
	}
	return content{}, false
}

// meta is the object's metadata; nil if there is no object.
func (c content) meta() *metav1.ObjectMeta {
	switch {
	case c.configMap != nil:
		return &c.configMap.ObjectMeta
	case c.secret != nil:
		return &c.secret.ObjectMeta
	}
	return nil
}

// is tells whether c is the object that ref names.
func (c content) is(ref objects.Ref) bool {
	m := c.meta()
	return m != nil && m.Name == ref.Name && m.Namespace == ref.Namespace && (c.secret != nil) == (ref.Kind == objects.Secret)
}

// immutable tells whether the server refuses to change the object.
func (c content) immutable() bool {
	switch {
	case c.configMap != nil:
		return c.configMap.Immutable != nil && *c.configMap.Immutable
	case c.secret != nil:
		return c.secret.Immutable != nil && *c.secret.Immutable
	}
	return false
}

// same tells whether pods would see no difference.
func (c content) same(d content) bool {
	switch {
	case c.configMap != nil && d.configMap != nil:
		return maps.Equal(c.configMap.Data, d.configMap.Data) &&
			maps.EqualFunc(c.configMap.BinaryData, d.configMap.BinaryData, bytes.Equal)
	case c.secret != nil && d.secret != nil:
		return maps.EqualFunc(c.secret.Data, d.secret.Data, bytes.Equal)
	}
	return c.meta() == nil && d.meta() == nil
}

// after compares the versions of two states of an object: it is positive if c is the later one, 0 if they are the same, and
// negative if c is the earlier one. A server whose versions are no numbers is believed to send them in their order.
func (c content) after(d content) int {
	if c.meta() == nil || d.meta() == nil {
		return 1
	}
	order, err := resourceversion.CompareResourceVersion(c.meta().ResourceVersion, d.meta().ResourceVersion)
	if err != nil {
		return 1
	}
	return order
}

// get asks for one object. Content without an object is the server's word that there is none. The server answers from
// its database, and so with the latest state.
func get(ctx context.Context, client ObjectsClient, ref objects.Ref) (content, error) {
	var object runtime.Object
	var err error
	if ref.Kind == objects.Secret {
		object, err = client.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	} else {
		object, err = client.ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return content{}, problem(ref, VerbGet, context.Cause(ctx))
	case isMissing(err, ref.Name):
		return content{}, nil
	case err != nil:
		e := problem(ref, VerbGet, err)
		if e.Reason == ReasonNotFound { // of something else
			e.Reason, e.Err = ReasonBadAnswer, errBadAnswer
		}
		return content{}, e
	}
	c, ok := contentOf(object)
	if !ok || !c.is(ref) { // client-go reads any JSON object as one of any kind
		return content{}, &Error{Ref: ref, Verb: VerbGet, Reason: ReasonBadAnswer, Err: errBadAnswer}
	}
	return c, nil
}

// openWatch watches one object, from a state that the server has at hand. All that happens after openWatch has returned
// comes as an event, behind some of what happened before. A node may watch objects by their names only.
func openWatch(ctx context.Context, client ObjectsClient, ref objects.Ref, seconds int64) (watch.Interface, error) {
	o := metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String(),
		ResourceVersion: "0",
		TimeoutSeconds:  &seconds,
	}
	if ref.Kind == objects.Secret {
		return client.Secrets(ref.Namespace).Watch(ctx, o)
	}
	return client.ConfigMaps(ref.Namespace).Watch(ctx, o)
}
