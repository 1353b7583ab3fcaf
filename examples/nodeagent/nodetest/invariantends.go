// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// endsKept checks that once an agent has published the end of an instance of a container, each
// later status of the agent in the same life of the pod shows an end of the container, that end or
// a later end. The last statuses of an earlier life may be published when the next life has begun.
func (c *checker) endsKept() {
	type place struct {
		uid  types.UID
		name string
	}
	before := make(map[place]Published)
	for _, s := range c.h.Statuses {
		for _, list := range [][]v1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses} {
			for i := range list {
				at := place{s.Pod.UID, list[i].Name}
				if ended := cmp.Or(list[i].State.Terminated, list[i].LastTerminationState.Terminated); ended != nil {
					_, id, _ := strings.Cut(ended.ContainerID, "://")
					if in := c.byID[id]; in != nil && !c.isOfLifeBefore(in) && c.lifeOf(in.uid, c.origin(in).began()) == c.lifeOf(in.uid, s.At) {
						before[at] = s
					}
					continue
				}
				was, known := before[at]
				delete(before, at)
				if known && c.lifeOf(s.Pod.UID, was.At) == c.lifeOf(s.Pod.UID, s.At) && !c.agentBetween(was.At, s.At) {
					c.violate(s.At, "container %s of %s was published as ended at %.3fs, and is published without any end", at.name, at.uid, was.At.Seconds())
				}
			}
		}
	}
}

// origin returns i if the agent started i. If another program started i in place of an instance of the
// agent, origin returns that instance. Both instances belong to the same life of the pod.
func (c *checker) origin(i *instance) *instance {
	origin := i
	for _, other := range c.instances {
		if i.called < 0 && other.called >= 0 && other.uid == i.uid && other.name == i.name && other.started <= i.started {
			origin = other
		}
	}
	return origin
}
