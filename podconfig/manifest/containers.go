// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// containers yields the init containers and then the containers. The loop may edit them in place.
func containers(spec *v1.PodSpec) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for _, group := range [][]v1.Container{spec.InitContainers, spec.Containers} {
			for i := range group {
				if !yield(&group[i]) {
					return
				}
			}
		}
	}
}

func setContainerDefaults(c *v1.Container, hostNetwork bool) {
	setIfZero(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setIfZero(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	setIfZero(&c.ImagePullPolicy, pullPolicyFor(c.Image))
	for i := range c.Ports {
		setIfZero(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			setIfZero(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			setFieldRefDefaults(from.FieldRef)
			if from.FileKeyRef != nil {
				setIfNil(&from.FileKeyRef.Optional, false)
			}
		}
	}
	setResourceDefaults(&c.Resources)
	setProbeDefaults(c.LivenessProbe)
	setProbeDefaults(c.ReadinessProbe)
	setProbeDefaults(c.StartupProbe)
	if c.Lifecycle != nil {
		setHookDefaults(c.Lifecycle.PostStart)
		setHookDefaults(c.Lifecycle.PreStop)
	}
}

// pullPolicyFor returns Always if the image name does not pin a version: the tag is missing or
// "latest".
func pullPolicyFor(image string) v1.PullPolicy {
	name, _, hasDigest := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:] // the port of a registry is not a tag
	_, tag, hasTag := strings.Cut(name, ":")
	if tag == "latest" || !hasTag && !hasDigest {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

func setFieldRefDefaults(ref *v1.ObjectFieldSelector) {
	if ref != nil {
		setIfZero(&ref.APIVersion, "v1")
	}
}
