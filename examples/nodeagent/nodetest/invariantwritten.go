// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
)

// Invariants about the statuses that agents write, by the statuses that the agents have published.

// writes checks each status that an agent has written: it is the last published status, completed with the facts of
// the server that no agent undoes.
func (c *checker) writes() { c.writesAfter(toldLate) }

// writes is checker.writes for requests that take no time.
func (p *peace) writes() { p.writesAfter(0) }

func (c *checker) writesAfter(late time.Duration) {
	for _, t := range c.talks() {
		for i := range t.requests {
			r := &t.requests[i]
			if r.after == nil || r.hazy {
				continue
			}
			var first error
			for _, told := range c.toldBy(t, r.At, late) {
				w := writing{c: c, late: late, t: t, r: r, told: told, pod: r.after, was: &r.before.Status, is: &r.after.Status}
				err := w.fits()
				if first = cmp.Or(first, err); err == nil {
					first = nil
					break
				}
			}
			if first != nil {
				c.violate(r.end, "on the API server, %s (%s): %v", r.Pod.Name, t.uid, first)
			}
		}
	}
}

// toldBy returns the publications that an agent may regard as the last at some time, the last first. A static pod may end in
// another manifest than its mirror pod shows, so publications from before count for late.
func (c *checker) toldBy(t *talk, at, late time.Duration) (last []Published) {
	from := at
	if t.mirror {
		from -= late
	}
	for _, told := range slices.Backward(t.told) {
		if told.At > at || c.agentBetween(told.At+1, at) {
			continue
		}
		last = append(last, told)
		if told.At < from {
			break
		}
	}
	return last
}

// writing is a status on the server, and the publication that it follows.
type writing struct {
	c       *checker
	late    time.Duration
	t       *talk
	r       *request
	told    Published
	pod     *v1.Pod // on the server, after the patch
	was, is *v1.PodStatus
}

// fits checks that the status follows from the publication and from the status before.
func (w *writing) fits() error {
	shown := w.pod.Annotations[podconfig.AnnotationMirror]
	if hash := w.told.Pod.Annotations[podconfig.AnnotationHash]; w.t.mirror && hash != shown && w.late == 0 && !over(w.told.Status.Phase) {
		return fmt.Errorf("it is the mirror pod of manifest %s, and has the status of manifest %s", shown, hash)
	}
	if err := w.phase(); err != nil {
		return err
	}
	ours := &w.told.Status
	for _, field := range []struct {
		name     string
		want, is any
	}{
		{"observed generation", w.generation(), w.is.ObservedGeneration},
		{"host IP", ours.HostIP, w.is.HostIP}, {"host IPs", ours.HostIPs, w.is.HostIPs},
		{"pod IP", ours.PodIP, w.is.PodIP}, {"pod IPs", ours.PodIPs, w.is.PodIPs},
		{"QoS class", w.class(), w.is.QOSClass},
		{"resources", ours.Resources, w.is.Resources}, {"allocated resources", ours.AllocatedResources, w.is.AllocatedResources},
		{"start time", w.startTime(), w.is.StartTime},
		{"resource claims", w.was.ResourceClaimStatuses, w.is.ResourceClaimStatuses}, {"nominated node", w.was.NominatedNodeName, w.is.NominatedNodeName},
	} {
		if err := alike(field.name, field.want, field.is); err != nil {
			return err
		}
	}
	byName := func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(w.is.ContainerStatuses, byName) || !slices.IsSortedFunc(w.is.EphemeralContainerStatuses, byName) {
		return errors.New("its containers are not in the order of their names")
	}
	for _, lists := range [][3][]v1.ContainerStatus{
		{ours.InitContainerStatuses, w.was.InitContainerStatuses, w.is.InitContainerStatuses},
		{ours.ContainerStatuses, w.was.ContainerStatuses, w.is.ContainerStatuses},
		{ours.EphemeralContainerStatuses, w.was.EphemeralContainerStatuses, w.is.EphemeralContainerStatuses},
	} {
		if err := w.containers(lists[0], lists[1], lists[2]); err != nil {
			return err
		}
	}
	return w.conditions()
}

// class returns the QoS class. A static pod that is refused keeps that of an earlier life.
func (w *writing) class() v1.PodQOSClass {
	if w.t.mirror && w.told.Status.QOSClass == "" {
		return w.is.QOSClass
	}
	return w.told.Status.QOSClass
}

// generation returns the observed generation: that of the pod told, and never an earlier one. The end of a pod can be that
// of a version that no status was about.
func (w *writing) generation() int64 {
	told := max(w.was.ObservedGeneration, w.told.Pod.Generation)
	if over(w.told.Status.Phase) && w.is.ObservedGeneration <= w.pod.Generation {
		return max(told, w.is.ObservedGeneration)
	}
	return told
}

// startTime returns the start time of the server, or else the time told, or else the time of the first publication.
func (w *writing) startTime() *metav1.Time {
	switch {
	case w.t.mirror:
		return w.is.StartTime // of the first life under this UID
	case !w.was.StartTime.IsZero():
		return w.was.StartTime
	case w.told.Status.StartTime != nil:
		return new(metav1.NewTime(w.told.Status.StartTime.Truncate(time.Second)))
	}
	first := slices.IndexFunc(w.t.told, func(told Published) bool { return !w.c.agentBetween(told.At+1, w.r.At) })
	return new(metav1.NewTime(w.c.h.Began.Add(w.t.told[first].At).Truncate(time.Second)))
}

// keepsPhase reports whether the phase of before has to stay: a pod does not come back from its end, and does not
// become pending again, except a static pod. The end is held back while a container may run.
func (w *writing) keepsPhase() bool {
	now := w.told.Status.Phase
	back := over(w.was.Phase) && now != w.was.Phase || w.was.Phase == v1.PodRunning && now == v1.PodPending
	return back && !w.t.mirror || over(now) && !over(w.was.Phase) && w.is.Phase == w.was.Phase
}

func (w *writing) phase() error {
	want := &w.told.Status
	if w.keepsPhase() {
		want = w.was
	}
	if want.Phase != w.is.Phase || want.Reason != w.is.Reason || want.Message != w.is.Message {
		return fmt.Errorf("it was %s, is told to be %s, and is %s", phrase(w.was), phrase(&w.told.Status), phrase(w.is))
	}
	return nil
}

// phrase returns the phase with the reason and the message.
func phrase(s *v1.PodStatus) string { return fmt.Sprintf("%s (%s: %s)", s.Phase, s.Reason, s.Message) }

// containers checks the statuses of containers.
func (w *writing) containers(told, was, is []v1.ContainerStatus) error {
	if len(told) != len(is) {
		return fmt.Errorf("%d containers are told, and it has %d", len(told), len(is))
	}
	for i := range told {
		name := told[i].Name
		n := slices.IndexFunc(is, func(s v1.ContainerStatus) bool { return s.Name == name })
		if n < 0 {
			return fmt.Errorf("container %s is missing", name)
		}
		var before *v1.ContainerStatus
		if j := slices.IndexFunc(was, func(s v1.ContainerStatus) bool { return s.Name == name }); j >= 0 {
			before = &was[j]
		}
		if err := w.container(&told[i], before, &is[n]); err != nil {
			return err
		}
	}
	return nil
}

const reasonUnknownEnd = "ContainerStatusUnknown"

func (w *writing) container(told, was, is *v1.ContainerStatus) error {
	want := told.DeepCopy()
	cameBack := was != nil && was.State.Terminated != nil && told.State.Terminated == nil
	switch ends := over(w.is.Phase) || w.pod.DeletionTimestamp != nil || w.t.mirror; {
	case cameBack && is.State.Terminated != nil && !w.mayComeBack(was) && !(w.t.mirror && is.State.Terminated.Reason == reasonUnknownEnd):
		want = was.DeepCopy() // has ended for good
		want.Ready, want.Started = false, new(bool)
	case ends && is.State.Terminated != nil && !is.Ready && !w.runs(told.Name):
		want.Ready, want.Started = false, is.Started
		if told.State.Terminated == nil {
			want.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				ExitCode: 137, Reason: reasonUnknownEnd, Message: "The container could not be located when the pod was terminated", ContainerID: told.ContainerID,
			}}
		}
	case w.probed(told.Name):
		want.Ready, want.Started = is.Ready, is.Started
	}
	return alike("container "+told.Name, inSeconds(want), is)
}

// inSeconds returns a status with times in whole seconds, as on an API server.
func inSeconds(s *v1.ContainerStatus) *v1.ContainerStatus {
	for _, state := range []*v1.ContainerState{&s.State, &s.LastTerminationState} {
		if r := state.Running; r != nil {
			r.StartedAt = metav1.NewTime(r.StartedAt.Truncate(time.Second))
		}
		if t := state.Terminated; t != nil {
			t.StartedAt, t.FinishedAt = metav1.NewTime(t.StartedAt.Truncate(time.Second)), metav1.NewTime(t.FinishedAt.Truncate(time.Second))
		}
	}
	return s
}

// mayComeBack reports whether a container that has ended may be started again.
func (w *writing) mayComeBack(was *v1.ContainerStatus) bool {
	for _, c := range allContainers(w.pod) {
		if canRestartAll(c) {
			return true
		}
	}
	code := was.State.Terminated.ExitCode
	for _, c := range allContainers(w.pod) {
		if c.Name == was.Name {
			policy := policyOf(w.pod, c)
			return podfacts.IsSidecar(c) || ruleFor(c, code) != nil || policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && code != 0
		}
	}
	return false // an ephemeral container
}

// runs reports whether an instance of a container runs during the request.
func (w *writing) runs(name string) bool {
	return slices.ContainsFunc(w.c.instances, func(i *instance) bool {
		return i.uid == w.told.Pod.UID && i.name == name && i.started < w.r.At && i.exited > w.r.end && !w.c.unheeded(i)
	})
}

// probed reports whether the container may have another result of a probe than the status that was published: a probe was
// answered since the status was made or, where calls can hang, the container has probes.
func (w *writing) probed(name string) bool {
	if w.late > 0 && slices.ContainsFunc(allContainers(w.pod), func(c *v1.Container) bool {
		return c.Name == name && (c.ReadinessProbe != nil || c.StartupProbe != nil)
	}) {
		return true
	}
	return slices.ContainsFunc(w.c.h.Probes, func(p Probed) bool {
		return p.UID == w.told.Pod.UID && p.Container == name && p.At >= w.told.At-toldLate && p.At <= w.r.At
	})
}

// conditions checks that the agent's conditions are as told, and all other conditions as before.
func (w *writing) conditions() error {
	told, was, is := conditionsOf(&w.told.Status), conditionsOf(w.was), conditionsOf(w.is)
	for kind, before := range was {
		if _, there := is[kind]; !there && (!agentsCondition(before) || told[kind].Type != "") {
			return fmt.Errorf("condition %s is missing", kind)
		}
	}
	for _, kind := range ofEveryPod {
		if is[kind].Type == "" {
			return fmt.Errorf("condition %s is missing", kind)
		}
	}
	for kind, now := range is {
		want, isTold := told[kind]
		switch ends := over(w.is.Phase) && !over(w.was.Phase); {
		case agentsCondition(now) && !isTold:
			if !slices.Contains(ofEveryPod, kind) || now.ObservedGeneration < w.told.Pod.Generation || now.ObservedGeneration > w.generation() {
				return fmt.Errorf("condition %s is %+v, and is not told", kind, now)
			}
			continue
		case !agentsCondition(now) && !(kind == v1.DisruptionTarget && ends && isTold):
			want = was[kind]
		case (kind == v1.PodReady || kind == v1.ContainersReady) && w.readinessDiffers():
			continue
		}
		if now.Status != want.Status || now.Reason != want.Reason || now.Message != want.Message || now.ObservedGeneration != want.ObservedGeneration {
			return fmt.Errorf("condition %s is %+v, told %+v, before %+v", kind, now, want, was[kind])
		}
		if err := w.transition(&now, &want); err != nil {
			return err
		}
	}
	return nil
}

// ofEveryPod are the conditions of every pod.
var ofEveryPod = []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady}

// transition checks the transition time of a condition: the server's if the condition stays, the time told, or, if no time
// is told, that of the first publication with the condition. If the server has lost the condition, the next agent has no
// earlier time either. A static pod keeps times of its former lives.
func (w *writing) transition(now, want *v1.PodCondition) error {
	before, at := conditionsOf(w.was)[now.Type], want.LastTransitionTime
	fresh := before.Type == "" && now.LastTransitionTime.Time.Equal(w.c.h.Began.Add(w.told.At).Truncate(time.Second))
	if w.t.mirror || fresh || now.Status == before.Status && now.LastTransitionTime.Equal(&before.LastTransitionTime) {
		return nil
	}
	if at.IsZero() {
		for _, told := range slices.Backward(w.t.told) {
			if told.At > w.told.At {
				continue
			}
			if conditionsOf(&told.Status)[now.Type].Status != now.Status || w.c.agentBetween(told.At+1, w.r.At) {
				break
			}
			at = metav1.NewTime(w.c.h.Began.Add(told.At))
		}
	}
	return alike(fmt.Sprintf("transition of %s to %s", now.Type, now.Status), metav1.NewTime(at.Truncate(time.Second)), now.LastTransitionTime)
}

func agentsCondition(c v1.PodCondition) bool { return ofAgent(c) || c.Type == v1.PodScheduled }

// readinessDiffers reports whether the conditions of readiness follow from more than the publication: the pod has readiness
// gates or has ended, or a probe was answered since. A static pod may end in another manifest than was told.
func (w *writing) readinessDiffers() bool {
	return w.t.mirror && w.late > 0 || len(w.pod.Spec.ReadinessGates) > 0 || over(w.is.Phase) || over(w.told.Status.Phase) || slices.ContainsFunc(w.is.ContainerStatuses, func(s v1.ContainerStatus) bool { return w.probed(s.Name) }) ||
		slices.ContainsFunc(w.is.InitContainerStatuses, func(s v1.ContainerStatus) bool { return w.probed(s.Name) })
}

// alike compares two values as JSON.
func alike(what string, want, is any) error {
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(is)
	if errA != nil || errB != nil || string(a) != string(b) {
		return fmt.Errorf("%s should be %s, and is %s", what, a, b)
	}
	return nil
}
