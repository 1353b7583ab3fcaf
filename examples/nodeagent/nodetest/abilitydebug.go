// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// Ephemeral containers, which users add to pods of the API server (kubectl debug).

func debugging() ability {
	return ability{
		steps: []step{{3, (*generator).debug}}, peaceful: []step{{2, (*generator).debug}},
		check: (*checker).ephemeral, judge: (*peace).debugged,
	}
}

// debug adds an ephemeral container to a pod of the API server.
func (g *generator) debug() {
	if name, s := g.anyPod(); !s.static {
		c := name + "/" + pick(g, "x", "y")
		g.say("behave " + c + " " + pick(g, "serve", "serve", "exit=2s", "exit=20s,code=1", "exit=1ns"))
		g.try("debug " + c)
	}
}

func (p *player) debug(name, container string) error {
	uid, err := p.bound(name)
	if err != nil {
		return err
	}
	pod := p.server.Get(uid)
	if _, taken := runtime.Find(pod, container); taken || pod.DeletionTimestamp != nil || over(pod.Status.Phase) {
		return fmt.Errorf("pod %s has a container %s, or ends", name, container)
	}
	return p.change(uid, func(pod *v1.Pod) {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: container, Image: imageOf(container, 1), ImagePullPolicy: v1.PullIfNotPresent,
		}})
	})
}

// ephemeral checks that an ephemeral container is started once.
func (c *checker) ephemeral() {
	manifests, first := c.manifests(), make(map[string]string)
	for _, i := range c.instances {
		if i.called < 0 || !slices.ContainsFunc(manifests[i.uid], func(pod *v1.Pod) bool {
			ref, ok := runtime.Find(pod, i.name)
			return ok && ref.Group == runtime.GroupEphemeral
		}) {
			continue
		}
		key := string(i.uid) + "/" + i.name
		if before := first[key]; before != "" {
			c.violate(i.called, "ephemeral container %s is started as %s, and was as %s", key, i.id, before)
		}
		first[key] = i.id
	}
}

// afterStop returns the end of the stop that is in progress at some time in a container of the pod, or that time.
// The sync that stops the container has the manifest from before.
func (p *peace) afterStop(uid types.UID, at time.Duration) time.Duration {
	for _, r := range p.runs {
		if r.uid == uid && r.exited < forever && r.exited > at && slices.ContainsFunc(r.stops, func(s stop) bool { return s.at <= at }) {
			return r.exited
		}
	}
	return at
}

// debugged judges that an ephemeral container is created once its pod has a sandbox.
func (p *peace) debugged() {
	for uid, spans := range p.wanted {
		for life, s := range spans {
			first := slices.IndexFunc(p.runs, func(r *run) bool { return r.uid == uid && r.life == life })
			if first < 0 || p.takenOver(uid, life) {
				continue
			}
			pod := p.lastManifest(uid, life)
			for i := range pod.Spec.EphemeralContainers {
				c := (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
				added := p.addedAt(uid, c.Name)
				_, waited := p.supplied(uid, c, added) // a pull may wait since before the first container
				due, late := p.supplied(uid, c, p.afterStop(uid, max(added, p.runs[first].created)))
				late = max(late, waited) + retried + hooksTime(pod)
				if due == forever || p.unmounted(pod, due+late) || due+late >= min(s.to, p.over(uid, life, due), p.h.Taken) {
					continue
				}
				if !slices.ContainsFunc(p.runs, func(r *run) bool { return r.uid == uid && r.name == c.Name && r.created <= due+late }) {
					p.violate(due, "ephemeral container %s/%s is not created", uid, c.Name)
				}
			}
		}
	}
}

// addedAt returns the time at which an agent first heard of an ephemeral container.
func (p *peace) addedAt(uid types.UID, name string) time.Duration {
	for _, t := range p.told[uid] {
		if _, ok := runtime.Find(t.Pods[0], name); ok {
			return t.At
		}
	}
	return forever
}
