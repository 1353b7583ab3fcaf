// SPDX-License-Identifier: Apache-2.0

package objects

import (
	v1 "k8s.io/api/core/v1"
)

// Kind is the kind of the object named by a Ref.
type Kind string

// The kinds of objects in volumes.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

// Ref names an object. It is comparable.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// UsedBy reports whether a pod's volume has files from the object, also as a source of a projected
// volume, and also if the object is optional. It fits volumemanager.Manager.Refresh.
func (r Ref) UsedBy(pod *v1.Pod, volume v1.Volume) bool {
	if pod.Namespace != r.Namespace {
		return false
	}
	switch {
	case volume.ConfigMap != nil:
		return r.is(ConfigMap, volume.ConfigMap.Name)
	case volume.Secret != nil:
		return r.is(Secret, volume.Secret.SecretName)
	case volume.Projected != nil:
		for i := range volume.Projected.Sources {
			s := &volume.Projected.Sources[i]
			if s.ConfigMap != nil && r.is(ConfigMap, s.ConfigMap.Name) || s.Secret != nil && r.is(Secret, s.Secret.Name) {
				return true
			}
		}
	}
	return false
}

func (r Ref) is(kind Kind, name string) bool { return r.Kind == kind && r.Name == name }
