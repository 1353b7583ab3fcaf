// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// qosClass returns the first assigned class, since the class never changes, or else the computed
// class.
func (g *generator) qosClass() v1.PodQOSClass {
	for _, class := range []v1.PodQOSClass{g.Pod.Status.QOSClass, g.previous.QOSClass} {
		if class != "" {
			return class
		}
	}
	return QOSClass(g.Pod)
}

// QOSClass computes the quality-of-service class of a pod from cpu and memory. Pod-level cpu or memory
// decides alone (KEP-2837). Otherwise all regular and init containers decide. The class is Guaranteed
// if each container has limits for both resources and equal requests (an unset request equals the
// limit), BestEffort if no container has a non-zero value, and Burstable otherwise.
func QOSClass(pod *v1.Pod) v1.PodQOSClass { return podresources.QOSClass(pod) }
