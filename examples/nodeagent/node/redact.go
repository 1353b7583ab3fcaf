// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// redactedValue replaces each value of an environment variable in /pods.
const redactedValue = "(redacted)"

// redacted returns a copy of pod without the values of environment variables, which are often
// secrets. The values of all containers are removed, and the manifest in the annotation of kubectl
// apply. The copy shares unchanged parts with pod.
func redacted(pod *v1.Pod) v1.Pod {
	shown := *pod
	shown.Spec.InitContainers = redactedContainers(pod.Spec.InitContainers)
	shown.Spec.Containers = redactedContainers(pod.Spec.Containers)
	if len(pod.Spec.EphemeralContainers) > 0 {
		shown.Spec.EphemeralContainers = slices.Clone(pod.Spec.EphemeralContainers)
		for i := range shown.Spec.EphemeralContainers {
			c := &shown.Spec.EphemeralContainers[i]
			c.Env = redactedEnv(c.Env)
		}
	}
	if _, applied := pod.Annotations[v1.LastAppliedConfigAnnotation]; applied {
		shown.Annotations = maps.Clone(pod.Annotations)
		shown.Annotations[v1.LastAppliedConfigAnnotation] = redactedValue
	}
	return shown
}

func redactedContainers(containers []v1.Container) []v1.Container {
	shown := slices.Clone(containers)
	for i := range shown {
		shown[i].Env = redactedEnv(shown[i].Env)
	}
	return shown
}

func redactedEnv(env []v1.EnvVar) []v1.EnvVar {
	shown := slices.Clone(env)
	for i := range shown {
		if shown[i].Value != "" {
			shown[i].Value = redactedValue
		}
	}
	return shown
}
