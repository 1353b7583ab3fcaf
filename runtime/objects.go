// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects reads the ConfigMaps and Secrets that environments are built from.
//
//   - Calls may be concurrent and end when ctx does.
//   - What is not there is an error for which errors.Is(err, ErrNotFound) is
//     true, or an API server's NotFound status. Every other error means "cannot
//     tell" and is retried, also where the pod calls the object optional.
//   - Errors name the object and never what is in it: their text ends up in
//     pod statuses.
//   - Results stay the callee's; they are not written and not kept.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// errNoObjects is what a reference meets where there is no Objects at all.
var errNoObjects = fmt.Errorf("%w: this node has no source of ConfigMaps and Secrets", ErrNotFound)

// isMissing reports whether err says that an object or key does not exist.
func isMissing(err error) bool {
	if errors.Is(err, ErrNotFound) {
		return true
	}
	status, ok := errors.AsType[interface {
		error
		Status() metav1.Status
	}](err)
	return ok && status.Status().Reason == metav1.StatusReasonNotFound
}

// objectReader reads objects of one namespace for one environment. Each object
// is read at most once, so that all variables see the same version of it.
type objectReader struct {
	from       Objects // nil = none
	namespace  string
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
}

func newObjectReader(from Objects, namespace string) *objectReader {
	return &objectReader{
		from:       from,
		namespace:  namespace,
		configMaps: make(map[string]map[string]string),
		secrets:    make(map[string]map[string]string),
	}
}

// configMap returns the text entries of a ConfigMap; its binary ones cannot be
// environment variables.
func (r *objectReader) configMap(ctx context.Context, name string) (map[string]string, error) {
	if data, ok := r.configMaps[name]; ok {
		return data, nil
	}
	if r.from == nil {
		return nil, fmt.Errorf("ConfigMap %q: %w", name, errNoObjects)
	}
	obj, err := r.from.ConfigMap(ctx, r.namespace, name)
	if err == nil && obj == nil {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %q: %w", name, err)
	}
	r.configMaps[name] = obj.Data
	return obj.Data, nil
}

func (r *objectReader) secret(ctx context.Context, name string) (map[string]string, error) {
	if data, ok := r.secrets[name]; ok {
		return data, nil
	}
	if r.from == nil {
		return nil, fmt.Errorf("Secret %q: %w", name, errNoObjects)
	}
	obj, err := r.from.Secret(ctx, r.namespace, name)
	if err == nil && obj == nil {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("Secret %q: %w", name, err)
	}
	data := make(map[string]string, len(obj.Data))
	for key, value := range obj.Data {
		data[key] = string(value)
	}
	r.secrets[name] = data
	return data, nil
}
