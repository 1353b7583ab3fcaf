// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options are the options of NewStore. The zero value is valid.
type Options struct {
	// Changed is called for each created, changed or deleted object. It is called before Set or
	// Delete returns, without a lock held, possibly concurrently. Defaults to no call.
	Changed func(Ref)
}

// Store keeps objects. It implements configmap.Source and secret.Source, and is safe for concurrent
// use.
type Store struct {
	changed func(Ref)
	mu      struct {
		sync.RWMutex
		configMaps map[Ref]*v1.ConfigMap
		secrets    map[Ref]*v1.Secret
	}
}

// NewStore returns an empty store. The error is always nil.
func NewStore(o Options) (*Store, error) {
	s := &Store{changed: o.Changed}
	if s.changed == nil {
		s.changed = func(Ref) {}
	}
	s.mu.configMaps, s.mu.secrets = map[Ref]*v1.ConfigMap{}, map[Ref]*v1.Secret{}
	return s, nil
}

// SetConfigMap adds or replaces an object. The store owns the object from now on.
func (s *Store) SetConfigMap(cm *v1.ConfigMap) {
	r := Ref{ConfigMap, cm.Namespace, cm.Name}
	s.mu.Lock()
	before := s.mu.configMaps[r]
	s.mu.configMaps[r] = cm
	s.mu.Unlock()
	if before == nil || !maps.Equal(before.Data, cm.Data) || !maps.EqualFunc(before.BinaryData, cm.BinaryData, bytes.Equal) {
		s.changed(r)
	}
}

// SetSecret adds or replaces an object. The store owns the object from now on. As in the API
// server, StringData is merged into Data, and StringData wins.
func (s *Store) SetSecret(secret *v1.Secret) {
	if len(secret.StringData) > 0 {
		secret = secret.DeepCopy()
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		for k, text := range secret.StringData {
			secret.Data[k] = []byte(text)
		}
		secret.StringData = nil
	}
	r := Ref{Secret, secret.Namespace, secret.Name}
	s.mu.Lock()
	before := s.mu.secrets[r]
	s.mu.secrets[r] = secret
	s.mu.Unlock()
	if before == nil || !maps.EqualFunc(before.Data, secret.Data, bytes.Equal) {
		s.changed(r)
	}
}

// Delete removes an object.
func (s *Store) Delete(r Ref) {
	s.mu.Lock()
	_, isConfigMap := s.mu.configMaps[r]
	_, isSecret := s.mu.secrets[r]
	delete(s.mu.configMaps, r)
	delete(s.mu.secrets, r)
	s.mu.Unlock()
	if isConfigMap || isSecret {
		s.changed(r)
	}
}

// ConfigMap returns an object; do not write to it. For a missing object, apierrors.IsNotFound is
// true for the error.
func (s *Store) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if cm, ok := s.mu.configMaps[Ref{ConfigMap, namespace, name}]; ok {
		return cm, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

// Secret returns an object; do not write to it. For a missing object, apierrors.IsNotFound is true
// for the error.
func (s *Store) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if secret, ok := s.mu.secrets[Ref{Secret, namespace, name}]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}
