// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/semantic"
)

// slim removes the fields that simulated containers do not read, and returns the pod.
func slim(pod *v1.Pod) *v1.Pod {
	pod.ManagedFields = nil
	delete(pod.Annotations, v1.LastAppliedConfigAnnotation)
	s := &pod.Spec
	s.Volumes, s.ImagePullSecrets = nil, nil
	for i := range s.InitContainers {
		slimContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		slimContainer(&s.Containers[i])
	}
	return pod
}

func slimContainer(c *v1.Container) {
	c.Command, c.Args, c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices = nil, nil, nil, nil, nil, nil
}

// shapes are parts that pods have in common. Pods of one template differ in little more than their names, but each
// pod of an API server is decoded on its own. Pods are not written after slim, and so they share the parts.
type shapes struct {
	mu    sync.Mutex
	specs map[string]*v1.PodSpec // by the first container; without the name of a node
	maps  map[string]map[string]string
	words map[string]string
}

// mostShapes bounds each map of shapes, which is then begun anew.
const mostShapes = 1024

// slim removes the fields that simulated containers do not read, shares parts with earlier pods, and returns the pod.
func (s *shapes) slim(pod *v1.Pod) *v1.Pod {
	slim(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share(&pod.Spec)
	pod.Namespace = s.word(pod.Namespace)
	pod.Labels = s.table("labels", pod.Labels)
	for i := range pod.Status.ContainerStatuses {
		shareResources(&pod.Status.ContainerStatuses[i], pod.Spec.Containers)
	}
	return pod
}

// share sets a spec to an earlier spec that is equal. The lock is held.
func (s *shapes) share(spec *v1.PodSpec) {
	if len(spec.Containers) == 0 {
		return
	}
	node := s.word(spec.NodeName)
	spec.NodeName = ""
	c := &spec.Containers[0]
	key := c.Name + " " + c.Image
	if known := s.specs[key]; known != nil && semantic.Equal(known, spec) {
		*spec = *known
	} else {
		kept := *spec
		s.specs = with(s.specs, key, &kept)
	}
	spec.NodeName = node
}

// shareResources sets the resources of a container's status to those of its spec, if they are equal.
func shareResources(c *v1.ContainerStatus, specs []v1.Container) {
	for i := range specs {
		spec := &specs[i]
		if spec.Name != c.Name {
			continue
		}
		if c.Resources != nil && semantic.Equal(c.Resources, &spec.Resources) {
			c.Resources = &spec.Resources
		}
		if semantic.Equal(&c.AllocatedResources, &spec.Resources.Requests) {
			c.AllocatedResources = spec.Resources.Requests
		}
	}
}

// word returns an earlier string that is equal. The lock is held.
func (s *shapes) word(w string) string {
	known, found := s.words[w]
	if !found {
		s.words = with(s.words, w, w)
		known = w
	}
	return known
}

// table returns an earlier map that is equal. The lock is held.
func (s *shapes) table(key string, m map[string]string) map[string]string {
	if known := s.maps[key]; known != nil && maps.Equal(known, m) {
		return known
	}
	s.maps = with(s.maps, key, m)
	return m
}

// with adds an entry to a map of at most mostShapes entries.
func with[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil || len(m) >= mostShapes {
		m = map[string]V{}
	}
	m[key] = v
	return m
}
