// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// WithoutObjects returns a copy of a pod without its references to ConfigMaps, Secrets and claims, for
// a Decoder.Policy such as manifest.NoAPIReferences: a Controller has these objects. The lists keep their
// length, so that the fields of errors are right.
func WithoutObjects(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.ImagePullSecrets = nil
	for c := range podfacts.Containers(&pod.Spec) {
		c.EnvFrom = nil
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil {
				from.ConfigMapKeyRef, from.SecretKeyRef = nil, nil
			}
		}
	}
	nothing := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.ConfigMap != nil, v.Secret != nil, v.PersistentVolumeClaim != nil:
			v.VolumeSource = nothing
		case v.Projected != nil:
			for j := range v.Projected.Sources {
				if s := &v.Projected.Sources[j]; s.ConfigMap != nil || s.Secret != nil {
					*s = v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{}}
				}
			}
		}
	}
	return pod
}
