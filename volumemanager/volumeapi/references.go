// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// references returns the ConfigMaps and Secrets named by a pod: in its volumes, in the environments
// of all containers, and as image pull secrets. The Node authorizer permits the pod's node to read
// these objects.
func references(pod *v1.Pod) map[objects.Ref]bool {
	r := refs{namespace: pod.Namespace, all: map[objects.Ref]bool{}}
	for i := range pod.Spec.Volumes {
		r.volume(&pod.Spec.Volumes[i])
	}
	for c := range podfacts.AllContainers(&pod.Spec) {
		r.environment(c.EnvFrom, c.Env)
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		r.add(objects.Secret, s.Name)
	}
	return r.all
}

type refs struct {
	namespace string
	all       map[objects.Ref]bool
}

func (r refs) add(kind objects.Kind, name string) {
	if name != "" {
		r.all[objects.Ref{Kind: kind, Namespace: r.namespace, Name: name}] = true
	}
}

func (r refs) volume(v *v1.Volume) {
	switch {
	case v.ConfigMap != nil:
		r.add(objects.ConfigMap, v.ConfigMap.Name)
	case v.Secret != nil:
		r.add(objects.Secret, v.Secret.SecretName)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		r.add(objects.Secret, v.CSI.NodePublishSecretRef.Name)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			if s.ConfigMap != nil {
				r.add(objects.ConfigMap, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				r.add(objects.Secret, s.Secret.Name)
			}
		}
	}
}

func (r refs) environment(from []v1.EnvFromSource, env []v1.EnvVar) {
	for i := range from {
		if from[i].ConfigMapRef != nil {
			r.add(objects.ConfigMap, from[i].ConfigMapRef.Name)
		}
		if from[i].SecretRef != nil {
			r.add(objects.Secret, from[i].SecretRef.Name)
		}
	}
	for i := range env {
		source := env[i].ValueFrom
		if source == nil {
			continue
		}
		if source.ConfigMapKeyRef != nil {
			r.add(objects.ConfigMap, source.ConfigMapKeyRef.Name)
		}
		if source.SecretKeyRef != nil {
			r.add(objects.Secret, source.SecretKeyRef.Name)
		}
	}
}
