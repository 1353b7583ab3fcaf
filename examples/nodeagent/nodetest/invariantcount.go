// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// counting is a container in a pod's life, in which its restarts are counted on.
type counting struct {
	lifeKey
	container string
}

// counts: a restart count never goes back within a life, and no two instances
// that ran have the same.
func (c *checker) counts() {
	highest := make(map[counting]int32)
	counted := make(map[counting]map[int32]string)
	for _, s := range c.h.Statuses {
		for _, list := range [][]v1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
			for i := range list {
				status := &list[i]
				_, id, _ := strings.Cut(status.ContainerID, "://")
				// One that was unheeded, and removed as it began to run, gives its number to
				// the next.
				instance := c.byID[id]
				if instance == nil || c.unheeded(instance) {
					continue
				}
				at := counting{c.lifeOf(s.Pod.UID, instance.began()), status.Name}
				if status.RestartCount < highest[at] {
					c.violate(s.At, "restart count of %s/%s goes from %d to %d", s.Pod.UID, status.Name, highest[at], status.RestartCount)
				}
				highest[at] = status.RestartCount
				if status.State.Running == nil && status.State.Terminated == nil {
					continue
				}
				if counted[at] == nil {
					counted[at] = make(map[int32]string)
				}
				if other := counted[at][status.RestartCount]; other != "" && other != id {
					c.violate(s.At, "%s and %s of %s/%s are both published with restart count %d", other, id, s.Pod.UID, status.Name, status.RestartCount)
				}
				counted[at][status.RestartCount] = id
			}
		}
	}
}
