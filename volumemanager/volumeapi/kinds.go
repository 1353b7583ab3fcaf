// SPDX-License-Identifier: Apache-2.0

package volumeapi

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

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// content is the server's state of an object: a ConfigMap, a Secret, or neither if the object does
// not exist. Do not write to it.
type content struct {
	configMap *v1.ConfigMap
	secret    *v1.Secret
}

// contentOf returns the content of an object of the server, without managedFields, which are large and
// not used here. o may be shared with a fake server of client-go.
func contentOf(o runtime.Object) (content, bool) {
	switch o := o.(type) {
	case *v1.ConfigMap:
		own := *o
		own.ManagedFields = nil
		return content{configMap: &own}, true
	case *v1.Secret:
		own := *o
		own.ManagedFields = nil
		return content{secret: &own}, true
	}
	return content{}, false
}

// meta returns the object's metadata; nil if there is no object.
func (c content) meta() *metav1.ObjectMeta {
	switch {
	case c.configMap != nil:
		return &c.configMap.ObjectMeta
	case c.secret != nil:
		return &c.secret.ObjectMeta
	}
	return nil
}

// is reports whether c is the object named by ref.
func (c content) is(ref objects.Ref) bool {
	m := c.meta()
	return m != nil && m.Name == ref.Name && m.Namespace == ref.Namespace && (c.secret != nil) == (ref.Kind == objects.Secret)
}

// immutable reports whether the server refuses changes of the object.
func (c content) immutable() bool {
	switch {
	case c.configMap != nil:
		return c.configMap.Immutable != nil && *c.configMap.Immutable
	case c.secret != nil:
		return c.secret.Immutable != nil && *c.secret.Immutable
	}
	return false
}

// same reports whether c and d have the same data.
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

// after compares the versions of two states of an object: positive if c is later, 0 if equal,
// negative if c is earlier. If the versions are not numbers, c counts as later: the server is
// assumed to send states in order.
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

// get requests an object. Content without an object means: the server reports that the object does
// not exist. The server reads its database, so the answer is the latest state.
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
		return content{}, problem(ref, verbGet, context.Cause(ctx))
	case isMissing(err, ref.Name):
		return content{}, nil
	case err != nil:
		e := problem(ref, verbGet, err)
		if e.Reason == clientkit.NotFound { // another object is missing
			e.Reason, e.Err = clientkit.BadAnswer, clientkit.ErrBadAnswer
		}
		return content{}, e
	}
	c, ok := contentOf(object)
	if !ok || !c.is(ref) { // client-go decodes any JSON object as the requested kind
		return content{}, &Error{Ref: ref, Verb: verbGet, Reason: clientkit.BadAnswer, Err: clientkit.ErrBadAnswer}
	}
	return c, nil
}

// openWatch watches an object, starting at the state in the server's cache. Every change after the
// return of openWatch arrives as an event, possibly after events for earlier changes. A node may
// watch objects by name only.
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
