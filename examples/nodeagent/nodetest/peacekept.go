// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// Lifetimes on a peaceful node: of records of ended instances, of volumes, and of the remains of
// pods.

// tidied is the tolerated delay of the removal of a record: agents look for leftovers every half
// minute.
const tidied = 40 * time.Second

// kept judges the removal of an instance's record: while its pod is wanted, only the newest record
// of each container stays.
func (p *peace) kept(r *run) {
	if r.life < 0 || r.cannotStart && restartsAll(p.lastManifest(r.uid, r.life), r) {
		return // the next life begins at the creation
	}
	var ran []*run
	for _, other := range p.chains[chainKey{r.uid, r.life, r.name}] {
		if other.started < forever {
			ran = append(ran, other)
		}
	}
	i, to := slices.Index(ran, r), p.wanted[r.uid][r.life].to
	if p.goesOn[tenant{r.uid, r.life + 1}] {
		to-- // a life may end 1 ns after a start that failed at this instant
	}
	if at, reason := p.turnedAway(r.uid, r.life); reason == reasonPreempted {
		to = min(to, at) // an evicted pod frees its disk: see podworkers.Workers.ShouldPodContentBeRemoved
	}
	to = min(to, p.hookCut(tenant{r.uid, r.life}))
	hooks := hooksTime(p.lastManifest(r.uid, r.life))
	ref, known := runtime.Find(p.lastManifest(r.uid, r.life), r.name)
	keptByHook := known && hookFailed(ref.Container(p.lastManifest(r.uid, r.life))) // a failed start removes no record
	switch {
	case i < 0:
	case r.removed < to && (i == len(ran)-1 || ran[i+1].created > r.removed):
		p.violate(r.removed, "%s (%s/%s) is removed, and is the newest of its container", r.id, r.uid, r.name)
	case r.removed < min(to, p.over(r.uid, r.life, 0)) && ran[i+1].ended() > r.removed && ran[i+1].stops == nil:
		p.violate(r.removed, "%s (%s/%s) is removed, and is the newest that has ended", r.id, r.uid, r.name)
	case i+3 < len(ran) && !keptByHook && !ran[i+3].cannotStart && ran[i+3].created+hooks+soon < min(to, p.over(r.uid, r.life, 0)) && p.late(r.removed, ran[i+3].created+hooks):
		p.violate(ran[i+3].created, "%s (%s/%s) is kept, and three newer instances are there", r.id, r.uid, r.name)
	}
}

// late reports whether a due action is late without a new agent in between.
func (p *peace) late(at, due time.Duration) bool {
	return at > due+soon && due+soon < p.h.Taken && !p.agentBetween(due-tidied, min(at, p.h.Taken))
}

// transitions judges the times in statuses: the start time of a pod is constant, and the transition
// time of a condition is the time of the status with the change.
func (p *peace) transitions() {
	before := make(map[lifeKey]Published)
	for _, s := range p.h.Statuses {
		key := p.lifeOf(s.Pod.UID, s.At)
		was, ok := before[key]
		before[key] = s
		if !ok || p.agentBetween(was.At, s.At) || key.n < 0 || p.livesSince(key) >= was.At {
			continue
		}
		if !was.Status.StartTime.Equal(s.Status.StartTime) {
			p.violate(s.At, "the start of %s (%s) goes from %v to %v", s.Pod.Name, s.Pod.UID, was.Status.StartTime, s.Status.StartTime)
		}
		for _, c := range s.Status.Conditions {
			i := slices.IndexFunc(was.Status.Conditions, func(o v1.PodCondition) bool { return o.Type == c.Type })
			if i < 0 || isGate(s.Pod, c.Type) {
				continue
			}
			switch o := was.Status.Conditions[i]; {
			case o.Status == c.Status && !o.LastTransitionTime.Equal(&c.LastTransitionTime):
				p.violate(s.At, "condition %s of %s (%s) stays %s, and changed at %v, not %v", c.Type, s.Pod.Name, s.Pod.UID, c.Status, c.LastTransitionTime, o.LastTransitionTime)
			case o.Status != c.Status && c.LastTransitionTime.Before(&o.LastTransitionTime), o.Status != c.Status && was.At+time.Second < s.At && c.LastTransitionTime.Equal(&o.LastTransitionTime):
				p.violate(s.At, "condition %s of %s (%s) becomes %s, and changed at %v, as before", c.Type, s.Pod.Name, s.Pod.UID, c.Status, c.LastTransitionTime)
			}
		}
	}
}

// livesSince returns the creation of the first container of a life, or the begin of the first life,
// or forever.
func (p *peace) livesSince(key lifeKey) time.Duration {
	i := slices.IndexFunc(p.runs, func(r *run) bool { return r.uid == key.uid && r.life == key.n })
	switch {
	case key.n == 0:
		return p.wanted[key.uid][0].from
	case i < 0:
		return forever
	}
	return p.runs[i].created
}

// podVolume identifies a volume of VolumeDriver.
type podVolume struct {
	uid    types.UID
	volume string
}

// mounts judges that a volume is set up once, and torn down once.
func (p *peace) mounts() {
	ready, partly := make(map[podVolume]time.Duration), make(map[podVolume]bool)
	for _, e := range p.h.Volumes {
		m := podVolume{e.UID, e.Volume}
		since, is := ready[m]
		switch {
		case e.What == VolumeReady && is && !p.agentBetween(since, e.At):
			p.violate(e.At, "volume %s of %s is set up, and has been since %.3fs", e.Volume, e.UID, since.Seconds())
		case e.What == VolumeReady:
			ready[m] = e.At
		case e.What == VolumeFailed:
			partly[m] = true
		case e.What == VolumeLeaving && !is && !partly[m]:
			p.violate(e.At, "volume %s of %s is torn down, and is not there", e.Volume, e.UID)
		case e.What == VolumeLeaving:
			delete(ready, m)
		}
	}
}

// mounted reports whether a volume is set up now.
func (p *peace) mounted(m podVolume) (is bool) {
	for _, e := range p.h.Volumes {
		if e.UID == m.uid && e.Volume == m.volume && e.What != VolumeFailed {
			is = e.What == VolumeReady
		}
	}
	return is
}

// volumesAre checks that a pod has its volumes until its end, and no volume afterwards.
func (p *peace) volumesAre(pod *v1.Pod, status *v1.PodStatus) error {
	for _, volume := range pod.Spec.Volumes {
		if volume.FlexVolume == nil {
			continue
		}
		if is, ended := p.mounted(podVolume{pod.UID, volume.Name}), over(status.Phase); is == ended && (ended || !p.awaitsVolumes(pod)) {
			return fmt.Errorf("the pod is %s, and that its volume %s is mounted is %t", status.Phase, volume.Name, is)
		}
	}
	return nil
}

// left judges the remains of pods that no source wants.
func (p *player) left(peace *peace) error {
	known, wanted := make(map[types.UID]bool), make(map[types.UID]bool)
	for _, pod := range p.everyWanted() {
		wanted[pod.UID] = pod.DeletionTimestamp == nil
	}
	for _, pod := range p.node.assembly.Pods() {
		known[pod.UID] = true
	}
	workers := maps.Collect(p.node.assembly.Workers())
	// isGone reports whether the agent had the time to tidy up after a pod.
	isGone := func(uid types.UID) bool {
		spans := peace.wanted[uid]
		to := spans[len(spans)-1].to
		for _, r := range peace.runs {
			if r.uid == uid {
				to = max(to, r.ended())
			}
		}
		return !wanted[uid] && to != forever && peace.h.Taken >= to+tidied && !peace.agentBetween(to, peace.h.Taken) && p.node.life != nil
	}
	// lingers reports whether a pod of that name is wanted, or ends.
	lingers := func(name string) bool {
		for uid := range peace.wanted {
			if peace.manifest(uid, forever).Name == name && !isGone(uid) {
				return true
			}
		}
		return false
	}
	var errs []error
	for uid := range peace.wanted {
		if !isGone(uid) {
			continue
		}
		if truth := p.truth(uid); len(truth.Containers)+len(truth.Sandboxes) > 0 {
			errs = append(errs, fmt.Errorf("pod %s is gone, and the runtime has %d containers and %d sandboxes of it", uid, len(truth.Containers), len(truth.Sandboxes)))
		}
		if _, works := workers[uid]; works || known[uid] {
			errs = append(errs, fmt.Errorf("pod %s is gone, and the agent knows it: %t, and works on it: %t", uid, known[uid], works))
		}
		name := peace.manifest(uid, forever).Name
		if p.mirrorOf(name) != nil && !lingers(name) {
			errs = append(errs, fmt.Errorf("static pod %s is gone, and its mirror pod is left", name))
		}
		if p.server.Get(uid) != nil {
			errs = append(errs, fmt.Errorf("pod %s is gone, and the API server has it", uid))
		}
		if found, err := filepath.Glob(filepath.Join(p.root, "*", "*"+string(uid)+"*")); err == nil {
			for _, path := range found {
				if _, err := os.Stat(path); err == nil {
					errs = append(errs, fmt.Errorf("pod %s is gone, and %s is left", uid, filepath.Base(path)))
				}
			}
		}
	}
	return errors.Join(errs...)
}
