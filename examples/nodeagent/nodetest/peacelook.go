// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// look judges the status of every wanted pod of a peaceful node at this instant by its containers.
func (p *player) look() error {
	peace := newPeace(p.node.History(), p.limits)
	var errs []error
	for _, pod := range p.everyWanted() {
		status, truth := p.published(pod.UID), p.truth(pod.UID)
		if pod.DeletionTimestamp != nil || p.node.life == nil || peace.changing(pod) || peace.completedByProbe(pod.UID) || peace.waits(pod) {
			continue
		}
		if status == nil {
			errs = append(errs, fmt.Errorf("pod %s (%s) is lost", pod.Name, pod.UID))
			continue
		}
		now := p.node.World.Now()
		if peace.unmounted(pod, now) {
			// Between two attempts to set up the volumes, the agent publishes the containers that it finds.
			if err := errors.Join(truthful(status, truth), containersFit(status, truth, nil)); err != nil && peace.movedAt(pod.UID)+retried < now {
				errs = append(errs, fmt.Errorf("pod %s (%s), without volumes: %w", pod.Name, pod.UID, err))
			}
			continue
		}
		err := errors.Join(truthful(status, truth), containersFit(status, truth, nil), peace.phaseIs(pod, status, now), peace.volumesAre(pod, status))
		if !peace.initMoved(pod) && time.Since(p.tampered[pod.UID]) > mended {
			err = errors.Join(err, p.arrived(pod, status), p.mirrored(pod, status))
		}
		if !peace.refused(pod) {
			err = errors.Join(err, conditionsFit(pod, status, truth))
		}
		if !over(status.Phase) {
			err = errors.Join(err, consistent(pod, status), peace.containersAre(pod, status, truth, now), peace.initializedIs(pod, status), peace.resizeIs(pod, status, truth),
				fieldsFit(pod, status, truth), peace.shownIs(pod, status, time.Now()))
			if !peace.mounting(pod) {
				err = errors.Join(err, observes(pod, status))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s (%s): %w", pod.Name, pod.UID, err))
		}
	}
	return errors.Join(append(errs, p.left(peace))...)
}

// movedAt returns the time of the last begin or end of a container of the pod.
func (p *peace) movedAt(uid types.UID) (last time.Duration) {
	for _, r := range p.runs {
		for _, at := range []time.Duration{r.created, r.started, r.exited} {
			if r.uid == uid && at < forever {
				last = max(last, at)
			}
		}
	}
	return last
}

// initMoved reports whether an init container or sidecar has just begun or ended. API servers
// receive such a change a little later.
func (p *peace) initMoved(pod *v1.Pod) bool {
	return slices.ContainsFunc(p.runs, func(r *run) bool {
		ref, ok := runtime.Find(pod, r.name)
		return ok && r.uid == pod.UID && ref.Group == runtime.GroupInit && (r.created+soon > p.h.Taken || r.exited < forever && r.exited+soon > p.h.Taken)
	})
}

// changing reports whether a container of the pod is being stopped, or an agent has just begun to
// act on its manifest.
func (p *peace) changing(pod *v1.Pod) bool {
	s, n := p.spanAt(pod.UID, p.h.Taken)
	if n < 0 || p.h.Taken-s.from < soon+p.reviewed(pod.UID, n) || p.takenOver(pod.UID, n) {
		return true
	}
	if told := p.manifest(pod.UID, p.h.Taken); told == nil || p.h.Taken-p.told[pod.UID][len(p.told[pod.UID])-1].At < soon {
		return true
	}
	return slices.ContainsFunc(p.runs, func(r *run) bool {
		ref, known := runtime.Find(pod, r.name)
		running := r.started < forever && r.exited == forever
		if r.uid == pod.UID && r.life < n && s.from+p.hookAlone(r)+soon > p.h.Taken {
			return true
		}
		if known && r.uid == pod.UID && r.started < forever && r.started+afterStart(ref.Container(pod))+soon > p.h.Taken {
			return true // its hook is in progress
		}
		if known && r.started < forever && hookFailed(ref.Container(pod)) && r.started+hookTime(ref.Container(pod))+soon > p.h.Taken {
			return true // its start has failed, and its preStop hook is in progress, even if it has ended by itself
		}
		stops := len(r.stops) > 0 || known && p.unwellAt(ref.Container(pod), r) < forever
		return r.pod == pod.Name && running && (r.uid != pod.UID || r.life != n || !known || r.image != ref.Container(pod).Image || stops)
	}) || p.h.Taken-p.over(pod.UID, n, 0) >= 0 && p.h.Taken-p.over(pod.UID, n, 0) < soon || p.ending(pod, n)
}

// ending reports whether an ended pod still has a running container.
func (p *peace) ending(pod *v1.Pod, life int) bool {
	return p.over(pod.UID, life, 0) <= p.h.Taken && slices.ContainsFunc(p.runs, func(r *run) bool {
		return r.uid == pod.UID && r.started < forever && r.exited == forever
	})
}

// exitsAs returns the phase that follows from the last exits of a pod's containers.
func (p *peace) exitsAs(pod *v1.Pod, life int) v1.PodPhase {
	for i := range pod.Spec.Containers {
		chain := p.chains[chainKey{pod.UID, life, pod.Spec.Containers[i].Name}]
		if len(chain) == 0 || chain[len(chain)-1].code != 0 {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}

// stoppedFrom reports whether the agent began to stop a container of a life at a time or later.
func (p *peace) stoppedFrom(uid types.UID, life int, at time.Duration) bool {
	return slices.ContainsFunc(p.runs, func(r *run) bool {
		return r.uid == uid && r.life == life && slices.ContainsFunc(r.stops, func(s stop) bool { return s.at >= at })
	})
}

// phaseIs checks that the phase follows from the containers of the pod's current life. A pod with
// sidecars ends when its sidecars have ended.
func (p *peace) phaseIs(pod *v1.Pod, status *v1.PodStatus, now time.Duration) error {
	_, life := p.spanAt(pod.UID, now)
	end, deadline := p.over(pod.UID, life, 0), p.deadlineOf(pod.UID, life)
	if t := (tenant{pod.UID, life}); p.hasSidecars(t) {
		end = p.leftAt(t)
	}
	if at, reason := p.turnedAway(pod.UID, life); reason != "" && at <= min(end, deadline) {
		if reason == reasonPreempted && !p.wanted[pod.UID][life].static && p.exitsAs(pod, life) == v1.PodSucceeded {
			return errors.Join(differs("the phase of a preempted pod that has completed", v1.PodSucceeded, status.Phase), differs("its reason", "", status.Reason))
		}
		return errors.Join(differs("the phase of a pod that is turned away", v1.PodFailed, status.Phase), differs("its reason", reason, status.Reason))
	}
	if deadline <= end && deadline < now && !p.toldOver(pod.UID, life, deadline+p.startOf(pod.UID, life)%time.Second) {
		if status.Phase != v1.PodFailed || status.Reason != reasonDeadline {
			// The agent may count from the pod's second or from its instant, and the pod may end in between.
			if end <= deadline+p.startOf(pod.UID, life)%time.Second && !p.stoppedFrom(pod.UID, life, deadline) {
				return differs("the phase of a pod that ended at its deadline", p.exitsAs(pod, life), status.Phase)
			}
			return fmt.Errorf("its deadline has passed, and it is %s (%s)", status.Phase, status.Reason)
		}
		return nil
	}
	if p.over(pod.UID, life, 0) <= now {
		return differs("the phase of a pod that is over", p.exitsAs(pod, life), status.Phase)
	}
	if p.goesOn[tenant{pod.UID, life}] {
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return p.initDone(pod.UID, life, &c) > now }) {
			return nil
		}
		begun := slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return len(p.chains[chainKey{pod.UID, life, c.Name}]) > 0 })
		if !begun && p.sidecarFell(pod.UID, life, pod, now) {
			return nil // init begins again
		}
		next := p.agentBetween(p.wanted[pod.UID][life].from, now) // does not know the containers before the restart
		for _, c := range pod.Spec.Containers {
			if next && len(p.chains[chainKey{pod.UID, life, c.Name}]) == 0 || !slices.ContainsFunc(p.runs, func(r *run) bool { return r.uid == pod.UID && r.name == c.Name && r.started < forever }) {
				return nil
			}
		}
		return differs("the phase of a pod whose containers are all restarted", v1.PodRunning, status.Phase)
	}
	for i := range pod.Spec.InitContainers {
		if p.initDone(pod.UID, life, &pod.Spec.InitContainers[i]) > now {
			return differs("the phase of a pod that is not initialized", v1.PodPending, status.Phase)
		}
	}
	for i := range pod.Spec.Containers {
		chain := p.chains[chainKey{pod.UID, life, pod.Spec.Containers[i].Name}]
		if !slices.ContainsFunc(chain, func(r *run) bool { return r.started < forever }) {
			return differs("the phase of a pod with a container that never ran", v1.PodPending, status.Phase)
		}
		if chain[len(chain)-1].started == forever {
			return nil
		}
	}
	return differs("the phase of a pod whose containers have run", v1.PodRunning, status.Phase)
}

// initializedIs checks that the condition Initialized is True if all init containers have completed
// or, for sidecars, have started.
func (p *peace) initializedIs(pod *v1.Pod, status *v1.PodStatus) error {
	_, life := p.spanAt(pod.UID, p.h.Taken)
	want := v1.ConditionTrue
	for i := range pod.Spec.InitContainers {
		if p.goesOn[tenant{pod.UID, life}] && p.agentBetween(p.wanted[pod.UID][life].from, p.h.Taken) {
			return nil // the next agent does not know that it was so
		}
		if p.goesOn[tenant{pod.UID, life}] {
			break // the condition stays
		}
		c := &pod.Spec.InitContainers[i]
		chain := p.chains[chainKey{pod.UID, life, c.Name}]
		if p.initDone(pod.UID, life, c) == forever || podfacts.IsSidecar(c) && !p.up(c, chain[len(chain)-1]) {
			want = v1.ConditionFalse
		} else if c.StartupProbe != nil && p.agentBetween(chain[0].created, p.h.Taken) {
			return nil // the next agent may not know its start
		}
	}
	if slices.ContainsFunc(status.ContainerStatuses, func(c v1.ContainerStatus) bool { return c.State.Waiting == nil }) {
		want = v1.ConditionTrue
	}
	for _, c := range status.Conditions {
		if c.Type == v1.PodInitialized {
			return differs("condition Initialized", want, c.Status)
		}
	}
	return errors.New("there is no condition Initialized")
}

// up reports whether an instance of a sidecar runs and has passed its startup probe.
func (p *peace) up(c *v1.Container, r *run) bool {
	return r.started < forever && r.exited == forever && (c.StartupProbe == nil ||
		slices.ContainsFunc(p.attempts(r.id, startupProbe), func(a Probed) bool { return a.Well }))
}

// containersAre checks that the state of each container follows from its newest instance, and
// Started and Ready follow from its probes.
func (p *peace) containersAre(pod *v1.Pod, status *v1.PodStatus, truth *runtime.PodStatus, now time.Duration) error {
	_, life := p.spanAt(pod.UID, now)
	for _, c := range allContainers(pod) {
		shown, chain := containerStatus(status, c.Name), p.chains[chainKey{pod.UID, life, c.Name}]
		if shown == nil {
			return fmt.Errorf("container %s has no status", c.Name)
		}
		if len(chain) == 0 {
			first := shown.RestartCount == 0 && shown.LastTerminationState.Terminated == nil
			if shown.State.Waiting == nil || !first && !p.goesOn[tenant{pod.UID, life}] {
				return fmt.Errorf("container %s was never created, and is published as %+v", c.Name, shown)
			}
			if len(pod.Spec.InitContainers) == 0 && !p.unmounted(pod, now) && !p.awaitsVolumes(pod) {
				if err := p.missesKey(c, shown, p.wanted[pod.UID][life].from, now); err != nil {
					return err
				}
			}
			continue
		}
		r := chain[len(chain)-1]
		switch {
		case r.started == forever:
			if shown.State.Waiting == nil {
				return fmt.Errorf("container %s could not be started, and is published as %+v", c.Name, shown.State)
			}
		case r.exited == forever:
			if shown.State.Running == nil {
				return fmt.Errorf("container %s runs, and is published as %+v", c.Name, shown.State)
			}
			if err := p.probedIs(c, shown, r, now); err != nil && !isPlainInit(pod, c) {
				return err
			}
		case p.again(pod, c, r):
			if p.unmounted(pod, now) {
				continue
			}
			if shown.State.Terminated != nil && (p.sidecarFell(pod.UID, life, pod, now+1) || r.exited < r.started+hooksTime(pod)) {
				continue // it waits for the sidecar, or for the end of its hook
			}
			if shown.State.Waiting == nil || shown.LastTerminationState.Terminated == nil || shown.LastTerminationState.Terminated.ExitCode != int32(r.code) {
				return fmt.Errorf("container %s has ended with %d and comes again, and is published as %+v after %+v", c.Name, r.code, shown.State, shown.LastTerminationState)
			}
		default:
			if t := shown.State.Terminated; t == nil || t.ExitCode != int32(r.code) {
				return fmt.Errorf("container %s has ended with %d for good, and is published as %+v", c.Name, r.code, shown.State)
			}
			if isPlainInit(pod, c) && !shown.Ready {
				return fmt.Errorf("init container %s has completed, and is not ready", c.Name)
			}
		}
	}
	return nil
}

// probedIs checks that Started and Ready of a running container follow from its probes.
func (p *peace) probedIs(c *v1.Container, shown *v1.ContainerStatus, r *run, now time.Duration) error {
	if p.agentBetween(r.started, now) && (p.isStatic(r.uid) || p.agentBetween(r.started, r.started+settledProbes)) {
		return nil // the next agent does not have the results of this agent
	}
	started := c.StartupProbe == nil
	for _, a := range p.attempts(r.id, startupProbe) {
		started = started || a.Well
	}
	ready, failures, successes, last := c.ReadinessProbe == nil, int32(0), int32(0), r.started
	for _, a := range p.attempts(r.id, readinessProbe) {
		if p.agentBetween(last, a.At) {
			successes, failures = 0, 0
		}
		if last = a.At; a.Well {
			successes, failures = successes+1, 0
			ready = ready || successes >= c.ReadinessProbe.SuccessThreshold
		} else {
			successes, failures = 0, failures+1
			ready = ready && failures < failuresOf(c.ReadinessProbe)
		}
	}
	switch {
	case shown.Started == nil || *shown.Started != started:
		return fmt.Errorf("container %s is published as started: %v, and is: %t", c.Name, shown.Started, started)
	case shown.Ready != (started && ready):
		return fmt.Errorf("container %s is published as ready: %t, and is: %t", c.Name, shown.Ready, started && ready)
	}
	return nil
}

// settledProbes is the time after which an API server has the results of a container's first
// probes.
const settledProbes = 30 * time.Second
