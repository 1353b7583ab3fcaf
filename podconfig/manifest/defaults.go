// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	v1 "k8s.io/api/core/v1"
)

// SetDefaults sets the defaults of an API server (1.36) without admission plugins in a pod of the
// core/v1 API. It is idempotent. Scheduling fields have no defaults in the API server either.
func SetDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	setSpecDefaults(spec)
	for i := range spec.Volumes {
		setVolumeDefaults(&spec.Volumes[i])
	}
	for c := range containers(spec) {
		setContainerDefaults(c, spec.HostNetwork)
	}
	for i := range spec.EphemeralContainers {
		c := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		setContainerDefaults(&c, spec.HostNetwork)
		spec.EphemeralContainers[i].EphemeralContainerCommon = v1.EphemeralContainerCommon(c)
	}
	roundUp(spec.Overhead)
	setPodResourceDefaults(spec)
}

func setSpecDefaults(spec *v1.PodSpec) {
	setIfZero(&spec.RestartPolicy, v1.RestartPolicyAlways)
	setIfZero(&spec.DNSPolicy, v1.DNSClusterFirst)
	setIfZero(&spec.SchedulerName, v1.DefaultSchedulerName)
	setIfNil(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	setIfNil(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	setIfNil(&spec.SecurityContext, v1.PodSecurityContext{})
	// The API server treats the two service account fields as a single field; the new field wins.
	setIfZero(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
