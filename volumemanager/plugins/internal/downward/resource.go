// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/resourcefield"
)

// resourceField returns a resource amount of the container named by ref; see resourcefield.Value.
func resourceField(pod *v1.Pod, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == ref.ContainerName {
				return resourcefield.Value(pod, &list[i], ref, allocatable)
			}
		}
	}
	return "", fmt.Errorf("the pod has no container %q", ref.ContainerName)
}
