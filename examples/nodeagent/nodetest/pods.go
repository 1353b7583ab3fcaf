// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod returns a pod in the default namespace with UID "uid-NAME", restart policy
// Always and a grace period of 30 s, changed by opts.
func Pod(name string, opts ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = v1.NamespaceDefault, name, types.UID("uid-"+name)
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	grace := int64(30)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	for _, o := range opts {
		o(pod)
	}
	return pod
}

// Container adds a regular container.
func Container(name string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container(name)) }
}

// InitContainer adds an init container.
func InitContainer(name string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, container(name)) }
}

// Sidecar adds an init container that is restarted always.
func Sidecar(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c, always := container(name), v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// RestartPolicy sets the pod's restart policy.
func RestartPolicy(policy v1.RestartPolicy) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.RestartPolicy = policy }
}

// GracePeriod sets the pod's grace period in seconds.
func GracePeriod(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func container(name string) v1.Container {
	return v1.Container{Name: name, Image: "localhost/" + name + ":1", Command: []string{"/" + name}}
}
