// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"k8s.io/apimachinery/pkg/types"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// order: no regular container is started while an init container of its pod runs that
// has to complete first, by every manifest that the pod ever had: one that is not in the
// latest is stopped beside the others' start. What somebody else started is not the
// agent's doing.
func (c *checker) order() {
	manifests := make(map[types.UID][]*v1.Pod)
	for _, t := range c.h.Told {
		for _, pod := range t.Pods {
			if all := manifests[pod.UID]; len(all) == 0 || all[len(all)-1] != pod {
				manifests[pod.UID] = append(all, pod)
			}
		}
	}
	group := func(i *instance) runtime.Group {
		group := runtime.GroupEphemeral // nobody waits for these
		for n, pod := range manifests[i.uid] {
			ref, ok := runtime.Find(pod, i.name)
			if !ok || runtime.IsSidecar(ref.Container(pod)) || n > 0 && ref.Group != group {
				return runtime.GroupEphemeral
			}
			group = ref.Group
		}
		return group
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
