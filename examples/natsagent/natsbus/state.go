// SPDX-License-Identifier: Apache-2.0

package natsbus

import (
	"bytes"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// maxObject is the limit of an API server for the content of an object.
const maxObject = 1 << 20

// entry is a key of the bucket.
type entry struct {
	revision uint64
	value    []byte
	problem  string
}

// state is the content of the bucket. Only the goroutine of Run uses the state.
type state struct {
	node    string
	decoder *manifest.Decoder
	store   *objects.Store
	problem func(key string, err error)

	entries map[string]*entry
	pods    map[string]*v1.Pod // by key: the last valid pod
	objects map[string][]byte  // by key: the last valid object
	cached  map[string][]byte  // objects in the cache
	listing map[string]bool    // keys since the begin of a list, nil outside
}

func newState(o *Options) *state {
	return &state{
		node: o.Node, store: o.Store, problem: o.Problem,
		decoder: &manifest.Decoder{NodeName: types.NodeName(o.Node), Strict: true, Policy: func(*v1.Pod) error {
			return nil // ConfigMaps and Secrets are there; the node refuses what it cannot honour
		}},
		entries: map[string]*entry{}, pods: map[string]*v1.Pod{}, objects: map[string][]byte{},
	}
}

// begin is called before the keys of the bucket are listed.
func (s *state) begin() {
	s.listing = map[string]bool{}
	for _, e := range s.entries {
		e.revision = 0 // the server may be an older copy
	}
}

// end is called after the list. Keys that were not listed are removed. The result is the Snapshot.
func (s *state) end() podconfig.Change {
	for key := range s.entries {
		if !s.listing[key] {
			s.remove(key)
		}
	}
	s.listing = nil
	all := make([]*v1.Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		all = append(all, pod)
	}
	return podconfig.Snapshot(all...)
}

// put handles a value. The result is the change for the node, if there is one.
func (s *state) put(key string, revision uint64, value []byte) (c podconfig.Change, changed bool) {
	if s.listing != nil {
		s.listing[key] = true
	}
	e := s.entries[key]
	switch {
	case e == nil:
		e = &entry{}
		s.entries[key] = e
	case revision <= e.revision:
		return c, false
	case bytes.Equal(value, e.value):
		e.revision = revision
		return c, false
	}
	e.revision, e.value = revision, value
	c, changed, err := s.decode(key, value)
	s.say(key, e, err)
	return c, changed
}

// say reports a change of the problem of a key.
func (s *state) say(key string, e *entry, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == e.problem {
		return
	}
	e.problem = text
	s.problem(key, err)
}

// drop handles the removal of a key.
func (s *state) drop(key string, revision uint64) (c podconfig.Change, changed bool) {
	e, ok := s.entries[key]
	if !ok || revision <= e.revision {
		return c, false
	}
	return s.remove(key)
}

func (s *state) remove(key string) (c podconfig.Change, changed bool) {
	s.say(key, s.entries[key], nil)
	delete(s.entries, key)
	if _, ok := s.objects[key]; ok {
		if kind, name, err := parseKey(key); err == nil {
			s.store.Delete(ref(kind, name))
		}
		delete(s.objects, key)
	}
	pod, ok := s.pods[key]
	if !ok {
		return c, false
	}
	delete(s.pods, key)
	return podconfig.Remove(pod.UID), true
}

func (s *state) decode(key string, value []byte) (c podconfig.Change, changed bool, err error) {
	kind, name, err := parseKey(key)
	if err != nil {
		return c, false, err
	}
	switch kind {
	case podKeys:
		pod, err := s.decoder.Pod(value, manifest.Origin{Kind: "nats", Location: key})
		if err != nil {
			return c, false, err
		}
		if want := name.Name + "-" + s.node; pod.Namespace != name.Namespace || pod.Name != want {
			return c, false, fmt.Errorf("pod %s/%s: the key is that of pod %s/%s", pod.Namespace, pod.Name, name.Namespace, want)
		}
		s.pods[key] = pod
		return podconfig.Upsert(pod), true, nil
	case configMapKeys, secretKeys:
		return c, false, s.setObject(key, kind, name, value)
	}
	return c, false, fmt.Errorf("key %q: want %s, %s or %s at the begin", key, podKeys, configMapKeys, secretKeys)
}

// setObject decodes an object into the store. Errors have no values, which may be secret.
func (s *state) setObject(key, kind string, name types.NamespacedName, value []byte) error {
	if len(value) > maxObject {
		return fmt.Errorf("%d bytes, want %d at most", len(value), maxObject)
	}
	var meta struct {
		Kind, APIVersion string
		Metadata         struct{ Namespace, Name string }
	}
	want := map[string]string{configMapKeys: "ConfigMap", secretKeys: "Secret"}[kind]
	switch err := yaml.Unmarshal(value, &meta); {
	case err != nil:
		return fmt.Errorf("not a valid %s", want)
	case meta.Kind != want || meta.APIVersion != "v1":
		return fmt.Errorf("kind %q, apiVersion %q: want a v1 %s", meta.Kind, meta.APIVersion, want)
	case meta.Metadata.Name != name.Name || meta.Metadata.Namespace != "" && meta.Metadata.Namespace != name.Namespace:
		return fmt.Errorf("%s %s/%s: the key is that of %s", want, meta.Metadata.Namespace, meta.Metadata.Name, name)
	}
	var cm v1.ConfigMap
	var secret v1.Secret
	var err error
	if kind == configMapKeys {
		err = yaml.UnmarshalStrict(value, &cm)
	} else {
		err = yaml.UnmarshalStrict(value, &secret)
	}
	if err != nil {
		return fmt.Errorf("not a valid %s", want)
	}
	if kind == configMapKeys {
		cm.Namespace = name.Namespace
		s.store.SetConfigMap(&cm)
	} else {
		secret.Namespace = name.Namespace
		s.store.SetSecret(&secret)
	}
	s.objects[key] = value
	return nil
}

func ref(kind string, name types.NamespacedName) objects.Ref {
	r := objects.Ref{Kind: objects.ConfigMap, Namespace: name.Namespace, Name: name.Name}
	if kind == secretKeys {
		r.Kind = objects.Secret
	}
	return r
}
