// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/resourcefield"
)

// resourceField returns a resource amount of the container named by ref; see resourcefield.Value.
func resourceField(pod *v1.Pod, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	for c := range podfacts.Containers(&pod.Spec) {
		if c.Name == ref.ContainerName {
			return resourcefield.Value(pod, c, ref, allocatable)
		}
	}
	return "", fmt.Errorf("the pod has no container %q", ref.ContainerName)
}
