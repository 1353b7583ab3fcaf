// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects reads the ConfigMaps and Secrets of environments.
//
//   - Calls may be concurrent. The end of ctx ends a call.
//   - For a missing object the error wraps ErrNotFound, or is an API server's NotFound status.
//     After other errors the existence is unknown, and the read is retried, also for optional
//     references.
//   - Errors name the object and never show its content, because the text becomes part of pod
//     statuses.
//   - The caller neither modifies nor keeps the results.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// errNoObjects is the error of a reference on a node without Objects.
var errNoObjects = fmt.Errorf("%w: this node has no source of ConfigMaps and Secrets", ErrNotFound)

// isMissing reports whether err means that an object or key does not exist.
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

// objectReader reads objects of a namespace for an environment. Each object is read at most once,
// so that all variables see the same version.
type objectReader struct {
	from       Objects // nil: none
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

// configMap returns the text entries of a ConfigMap. Binary entries cannot be environment
// variables.
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
