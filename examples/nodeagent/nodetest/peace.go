// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// On a peaceful node no call fails or takes time, so every action of an agent is due at a known
// instant. checkPeace judges such a history by a second, plain model of a pod's life: the times of
// first and later creations of each container, the times and grace periods of stops, and the times
// of probes.

// soon is the tolerated delay of an agent on a peaceful node: the agent looks again after some time
// at names, volumes and sandboxes that it waits for.
const soon = 2 * time.Second

// retried is the longest wait of an agent after a failed start.
const retried = 12 * time.Second

type peace struct {
	*checker
	told   map[types.UID][]Told     // submissions with this pod only, in order
	limits                          // of the node
	away   map[tenant]verdict       // of turnedAway
	places map[tenant]time.Duration // of entered
	runs   []*run                   // in the order of their creation
	chains map[chainKey][]*run
	goesOn map[tenant]bool // lives that began with a restart of all containers in place
}

// checkPeace returns all actions that were late, missing or without a cause.
func checkPeace(h History, l limits) error {
	p := newPeace(h, l)
	for uid, spans := range p.wanted {
		for n := range spans {
			p.begins(uid, n)
			p.restartsInLife(uid, n)
			p.ends(uid, n)
		}
	}
	for _, r := range p.runs {
		p.stopped(r)
		p.probes(r)
		p.kept(r)
		p.pulledAgain(r)
	}
	p.transitions()
	if p.room != nil {
		p.admissions()
	}
	p.mounts()
	p.requests()
	p.writes()
	p.endsShown()
	for _, a := range abilities() {
		if a.judge != nil {
			a.judge(p)
		}
	}
	slices.SortStableFunc(p.found, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
	var errs []error
	for _, v := range p.found[:min(len(p.found), mostTold)] {
		errs = append(errs, fmt.Errorf("%.3fs: %s", v.at.Seconds(), v.text))
	}
	return errors.Join(errs...)
}

// manifest returns the last submitted version of a pod until some time, or nil.
func (p *peace) manifest(uid types.UID, until time.Duration) (pod *v1.Pod) {
	for _, t := range p.told[uid] {
		if t.At <= until {
			pod = t.Pods[0]
		}
	}
	return pod
}

// lastManifest returns the manifest at the end of a pod's life.
func (p *peace) lastManifest(uid types.UID, life int) *v1.Pod {
	s := p.wanted[uid][life]
	if s.to == forever || !s.static {
		return p.manifest(uid, s.to)
	}
	return p.manifest(uid, s.to-1)
}

// begins judges the first creation of each container of a life: init containers one after the
// other, and regular containers after all init containers have completed or, for sidecars, have
// started.
func (p *peace) begins(uid types.UID, life int) {
	if p.takenOver(uid, life) || p.hazy(tenant{uid, life}) {
		return
	}
	pod, due := p.manifest(uid, p.wanted[uid][life].from), p.beginOf(uid, life)
	mounted := time.Duration(0)
	if !p.goesOn[tenant{uid, life}] { // volumes stay
		due, mounted = after(p.volumesLacking(pod), due)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if p.sidecarFell(uid, life, pod, due+soon) || !p.beginsAt(uid, life, c, due, mounted) {
			return
		}
		done := p.initDone(uid, life, c)
		if done == forever {
			for _, later := range pod.Spec.Containers {
				for _, r := range p.chains[chainKey{uid, life, later.Name}] {
					p.violate(r.created, "%s (%s/%s) is created, and init container %s never completed or started", r.id, uid, later.Name, c.Name)
				}
			}
			return
		}
		due = max(due, done)
	}
	if p.sidecarFell(uid, life, pod, due+soon) {
		return
	}
	for i := range pod.Spec.Containers {
		p.beginsAt(uid, life, &pod.Spec.Containers[i], due, mounted)
	}
}

// takenOver reports whether another agent began before a later life of a pod. The new agent does
// not know the earlier life, and adopts its remains.
func (p *peace) takenOver(uid types.UID, life int) bool {
	first := p.h.Taken
	if i := slices.IndexFunc(p.runs, func(r *run) bool { return r.uid == uid && r.life == life }); i >= 0 {
		first = p.runs[i].created
	}
	return life > 0 && p.agentBetween(p.wanted[uid][life].from, first)
}

// beginOf returns the earliest begin of a life: after the submission, and after all containers of
// the earlier life have ended. A static pod also waits for an earlier pod of its name.
func (p *peace) beginOf(uid types.UID, life int) time.Duration {
	begin := p.freeOf(uid, life)
	if t := (tenant{uid, life}); p.room != nil && p.critical(t) && !p.tookPlace(t) {
		return p.makesRoom(t, begin)
	}
	return begin
}

// freeOf returns the time from which no earlier life of the pod is in the way.
func (p *peace) freeOf(uid types.UID, life int) time.Duration {
	s := p.wanted[uid][life]
	begin, name := s.from, p.manifest(uid, s.from).Name
	for _, r := range p.runs {
		if r.uid == uid && r.life >= life {
			continue // an ephemeral container that no restart of all containers has ended
		}
		if (r.uid == uid || s.static && r.pod == name) && r.created < s.from && r.exited > begin && r.started < forever {
			begin = max(r.exited, p.hookEnd(r, s.from))
		}
	}
	return begin
}

// hookEnd returns the end of the preStop hook of an instance that has ended by itself before a life
// of the pod, or of its name, which began at next. The hook began with the end of its own life.
func (p *peace) hookEnd(r *run, next time.Duration) time.Duration {
	if r.life >= 0 {
		next = min(next, p.wanted[r.uid][r.life].to)
	}
	return next + p.hookAlone(r)
}

// hookAlone returns the remaining time of a preStop hook after its instance has ended by itself.
func (p *peace) hookAlone(r *run) time.Duration {
	if r.life < 0 || len(r.stops) > 0 || r.exited == forever {
		return 0
	}
	pod := p.lastManifest(r.uid, r.life)
	ref, ok := runtime.Find(pod, r.name)
	if !ok {
		return 0
	}
	return min(hookTime(ref.Container(pod)), max(time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second, time.Second))
}

// beginsAt judges the first creation of a container, and reports whether the container was created.
func (p *peace) beginsAt(uid types.UID, life int, c *v1.Container, due, slack time.Duration) bool {
	name := c.Name
	chain := p.chains[chainKey{uid, life, name}]
	due, late := p.supplied(uid, c, due)
	if late += slack + p.reviewed(uid, life); due < forever {
		late = longer(p.lacks(c), due, late)
	}
	late += soon
	if pod := p.manifest(uid, due); pod != nil && due < forever && p.unmounted(pod, due+late) {
		late = max(late, forever/2-due) // the next agent sets volumes up again
	}
	fell := due < forever && p.sidecarFell(uid, life, p.lastManifest(uid, life), due+late) // it may wait for the sidecar's next start
	switch {
	case len(chain) == 0:
		edited := due < forever && p.imageAt(uid, name, due) != p.imageAt(uid, name, due+late) // it may wait for another image
		if until := p.over(uid, life, due); !edited && !fell && due < until && due+late < min(until, p.wanted[uid][life].to, p.h.Taken) {
			p.violate(due, "container %s/%s is not created", uid, name)
		}
		return false
	case late > slack+soon+p.reviewed(uid, life) && chain[0].image != c.Image: // it waited for an image that is no longer wanted
	case chain[0].created < due:
		p.violate(chain[0].created, "container %s/%s is created before %.3fs", uid, name, due.Seconds())
	case chain[0].created > due+late && !fell && !p.exceeded(uid, life, chain[0].created):
		p.violate(chain[0].created, "container %s/%s is created, and was due at %.3fs", uid, name, due.Seconds())
	}
	return true
}

// reviewed returns the delay of a life that is caused by the earlier life: see afterReview, or the
// back-off after a restart of all containers in place.
func (p *peace) reviewed(uid types.UID, life int) time.Duration {
	if p.goesOn[tenant{uid, life}] {
		return 5 * time.Minute
	}
	return p.afterReview(uid, life)
}

// afterReview returns the delay of a life after an earlier life that ended by itself, because
// agents look at ended pods only from time to time.
func (p *peace) afterReview(uid types.UID, life int) time.Duration {
	for before := life - 1; before >= 0; before-- {
		if p.over(uid, before, 0) <= p.wanted[uid][life].from {
			return 30 * time.Second
		}
		if slices.ContainsFunc(p.runs, func(r *run) bool { return r.uid == uid && r.life == before }) {
			break
		}
	}
	return 0
}

// initDone returns the time from which the containers behind an init container may begin.
func (p *peace) initDone(uid types.UID, life int, c *v1.Container) time.Duration {
	for _, r := range p.chains[chainKey{uid, life, c.Name}] {
		switch {
		case !podfacts.IsSidecar(c) && r.exited < forever && r.code == 0 && !r.oom:
			return r.exited
		case podfacts.IsSidecar(c) && r.started < forever:
			if c.StartupProbe == nil {
				return r.started + afterStart(c)
			}
			for _, a := range p.attempts(r.id, startupProbe) {
				if a.Well {
					return a.At
				}
			}
		}
	}
	return forever
}

// sidecarFell reports whether a sidecar of the life may have been down until then, or whether an
// agent newer than the sidecar may not know its start.
func (p *peace) sidecarFell(uid types.UID, life int, pod *v1.Pod, until time.Duration) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			for n, r := range p.chains[chainKey{uid, life, c.Name}] {
				if r.ended() < until || n > 0 || c.StartupProbe != nil && p.agentBetween(r.created, until) {
					return true
				}
			}
		}
	}
	return false
}

// afterStart returns the duration of a container's postStart hook.
func afterStart(c *v1.Container) time.Duration {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil || c.Lifecycle.PostStart.Sleep == nil {
		return 0
	}
	return time.Duration(c.Lifecycle.PostStart.Sleep.Seconds) * time.Second
}

// unwellAt returns the time at which the liveness or startup probe of an instance has failed, or forever.
func (p *peace) unwellAt(c *v1.Container, r *run) time.Duration {
	return min(p.failedAt(r.id, livenessProbe, c.LivenessProbe), p.failedAt(r.id, startupProbe, c.StartupProbe))
}

// killedByProbe reports whether an instance was stopped because of its liveness or startup probe.
func (p *peace) killedByProbe(c *v1.Container, r *run) bool {
	return len(r.stops) > 0 && p.unwellAt(c, r) < forever
}

// completedByProbe reports whether a container with restart policy OnFailure has exited with 0 after
// its probe had failed. An agent then starts the container again, or finds at the end of the
// container's back-off that the container has completed.
func (p *peace) completedByProbe(uid types.UID) bool {
	return slices.ContainsFunc(p.runs, func(r *run) bool {
		if r.uid != uid || r.life < 0 || r.exited == forever || r.code != 0 {
			return false
		}
		pod := p.lastManifest(uid, r.life)
		ref, ok := runtime.Find(pod, r.name)
		return ok && policyOf(pod, ref.Container(pod)) == v1.RestartPolicyOnFailure && p.killedByProbe(ref.Container(pod), r)
	})
}

// hasNext reports whether the container had another instance in the same life.
func (p *peace) hasNext(r *run) bool {
	chain := p.chains[chainKey{r.uid, r.life, r.name}]
	return chain[len(chain)-1] != r
}

// hooksTime returns the time for which the hooks of a pod may delay starts of other containers.
func hooksTime(pod *v1.Pod) (sum time.Duration) {
	for _, c := range allContainers(pod) {
		sum += afterStart(c)
	}
	return sum
}

// again reports whether a container is created again after this end of its instance. After a failed
// probe the container is created again at once with any exit code. If the container was in back-off
// then, agents know only its exit code, as the kubelet.
func (p *peace) again(pod *v1.Pod, c *v1.Container, r *run) bool {
	policy, code := policyOf(pod, c), r.codeFor(pod)
	switch {
	case podfacts.IsSidecar(c):
		return true
	case ruleFor(c, code) != nil:
		return true
	case p.killedByProbe(c, r) && policy == v1.RestartPolicyOnFailure:
		return code != 0 || p.hasNext(r)
	case isPlainInit(pod, c):
		return code != 0 && policy != v1.RestartPolicyNever
	}
	return policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && code != 0
}

// restartsInLife judges each creation of a container except the first: by the restart policy, after
// the back-off that follows from its predecessors, with the next restart count.
func (p *peace) restartsInLife(uid types.UID, life int) {
	s := p.wanted[uid][life]
	pod := p.lastManifest(uid, life)
	for _, c := range allContainers(pod) {
		chain := p.chains[chainKey{uid, life, c.Name}]
		owed := time.Duration(0)
		for i, r := range chain {
			var next *run
			if i+1 < len(chain) {
				next = chain[i+1]
			}
			wait := owed
			if r.exited < forever && r.exited-r.started > 10*time.Minute {
				wait = 0
			}
			owed = min(max(2*wait, 10*time.Second), 5*time.Minute)
			if r.ended() == forever {
				continue
			}
			if p.resizedSince(r, forever, v1.ResourceCPU, v1.ResourceMemory) || p.resizeWaits(r) {
				break // the back-off depends on the resources of earlier instances
			}
			due := r.ended() + wait
			edited := next != nil && next.image != r.image
			if edited {
				owed = 0 // without back-off
			}
			due, late := p.supplied(uid, c, due)
			mounted, mountedLate := p.mountedAfter(pod, due)
			if due == forever || mounted == forever {
				continue
			}
			late = longer(p.lacks(c), due, late+hooksTime(pod)) + soon // an outage may begin during a hook
			if p.unwellAt(c, r) <= r.exited {
				late += p.hookAlone(r) // which began with the failure of the probe
			}
			if p.goesOn[tenant{uid, life}] || p.takenOver(uid, life) {
				late += 5 * time.Minute // the back-off of the earlier life applies
			}
			again := r.started == forever || r.cannotStart || hookFailed(c)
			if again {
				late = longer(p.lacks(c), due, late+retried) // the next tries may miss a supply
			}
			if p.agentBetween(1, due+late) {
				late += mounted - due + mountedLate // the next agent sets up volumes again
			}
			if p.unmounted(pod, due+late) {
				late = longer(p.volumesLacking(pod), due, late) // an outage may begin after the end
			}
			if again {
				late = longer(p.lacks(c), due, late) // and so may the tries after the volumes
			}
			free := p.imageAt(uid, c.Name, due+late) == r.image && !p.sidecarFell(uid, life, pod, due+late)
			switch {
			case next == nil && free && r.started < forever && p.again(pod, c, r) && due+late < min(s.to, p.over(uid, life, r.ended()), p.h.Taken):
				p.violate(due, "container %s/%s is not created again after %s", uid, c.Name, r.id)
			case next == nil:
			case next.count != r.count+1 && r.started < forever:
				p.violate(next.created, "%s of %s/%s is created with restart count %d after %d", next.id, uid, c.Name, next.count, r.count)
			case edited:
			case r.started < forever && !p.again(pod, c, r):
				p.violate(next.created, "%s of %s/%s is created again, which ended with %d and has restart policy %s", next.id, uid, c.Name, r.code, policyOf(pod, c))
			case next.created < due:
				p.violate(next.created, "%s of %s/%s is created %v after the end of %s, whose back-off is %v", next.id, uid, c.Name, next.created-r.ended(), r.id, wait)
			case free && next.created > due+late && !isPlainInit(pod, c):
				p.violate(next.created, "%s of %s/%s is created %v after the end of %s, whose back-off is only %v", next.id, uid, c.Name, next.created-r.ended(), r.id, wait)
			}
		}
	}
}

// resizedSince reports whether the wanted amount of one of these resources has changed between the
// creation of an instance and some time.
func (p *peace) resizedSince(r *run, until time.Duration, names ...v1.ResourceName) bool {
	pod := p.manifest(r.uid, r.created)
	began := r.created - hooksTime(pod) // a sync that waited for a hook or a stop has an earlier manifest
	for _, before := range p.runs {
		if before.uid == r.uid && before.name == r.name && before.created < r.created && before.exited >= r.created-soon && len(before.stops) > 0 {
			began = min(began, before.stops[0].at)
		}
	}
	if earlier := p.manifest(r.uid, began); earlier != nil {
		pod = earlier
	}
	before := pod.Spec.Containers[0].Resources.Limits
	return slices.ContainsFunc(p.told[r.uid], func(t Told) bool {
		now := t.Pods[0].Spec.Containers[0].Resources.Limits
		return t.At >= began && t.At <= until && slices.ContainsFunc(names, func(name v1.ResourceName) bool {
			return amountOf(now, name) != amountOf(before, name)
		})
	})
}

func (p *peace) imageAt(uid types.UID, name string, at time.Duration) string {
	for _, c := range allContainers(p.manifest(uid, at)) {
		if c.Name == name {
			return c.Image
		}
	}
	return ""
}

// over returns the time at which a life ends by itself, or forever: all regular containers have
// ended for good, an init container has failed for good, or the deadline has passed.
func (p *peace) over(uid types.UID, life int, _ time.Duration) time.Duration {
	pod := p.lastManifest(uid, life)
	at := p.deadlineOf(uid, life)
	last := time.Duration(0)
	for i := range pod.Spec.Containers {
		last = max(last, p.final(uid, life, pod, &pod.Spec.Containers[i]))
	}
	away, _ := p.turnedAway(uid, life)
	at = min(at, last, away)
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; !podfacts.IsSidecar(c) {
			for _, r := range p.chains[chainKey{uid, life, c.Name}] {
				if r.exited < forever && r.codeFor(pod) != 0 && !p.again(pod, c, r) {
					at = min(at, r.ended())
				}
			}
		}
	}
	return at
}

// final returns the time at which a regular container ended for good.
func (p *peace) final(uid types.UID, life int, pod *v1.Pod, c *v1.Container) time.Duration {
	chain := p.chains[chainKey{uid, life, c.Name}]
	if len(chain) == 0 {
		return forever
	}
	if last := chain[len(chain)-1]; last.started < forever && last.exited < forever && !p.again(pod, c, last) {
		return last.ended()
	}
	return forever
}
