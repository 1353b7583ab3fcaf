// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"k8s.io/apimachinery/pkg/types"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// order: no regular container is started while an init container of its pod runs that
// has to complete first. What somebody else started is not the agent's doing.
func (c *checker) order() {
	pods := make(map[types.UID]*v1.Pod) // a manifest never changes its containers' kinds here
	for _, t := range c.h.Told {
		for _, pod := range t.Pods {
			pods[pod.UID] = pod
		}
	}
	group := func(i *instance) runtime.Group {
		pod := pods[i.uid]
		if pod == nil {
			return runtime.GroupEphemeral
		}
		ref, ok := runtime.Find(pod, i.name)
		if !ok || runtime.IsSidecar(ref.Container(pod)) {
			return runtime.GroupEphemeral
		}
		return ref.Group
	}
	running := make(map[types.UID][]*instance) // plain init containers
	for _, i := range c.instances {
		switch group(i) {
		case runtime.GroupInit:
			if i.called >= 0 {
				running[i.uid] = append(running[i.uid], i)
			}
		case runtime.GroupRegular:
			for _, first := range running[i.uid] {
				if i.called >= 0 && first.entry < i.entry && i.entry < first.exit && first.started <= i.called {
					c.violate(i.called, "start of %s (%s %s/%s) while init container %s of its pod still ran", i.id, i.pod, i.uid, i.name, first.name)
				}
			}
		}
	}
}
