// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/semantic"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podstatus"
)

// Ready reports whether the condition Ready of a status is true.
func Ready(status *v1.PodStatus) bool {
	return podfacts.IsTrue(status.Conditions, v1.PodReady)
}

// Status returns the last published status of the pod. Before a status different from pod.Status is
// published, Status returns pod.Status.
func (p *Pods) Status(pod *v1.Pod) v1.PodStatus {
	return *p.records.find(pod.UID).lastStatus(pod)
}

// publish generates the pod's status from the observation, applies edit, and publishes the first or a
// changed status. over reports a terminal phase.
func (p *Pods) publish(r *record, pod *v1.Pod, observed *runtime.PodStatus, stage podstatus.Stage, edit func(*v1.PodStatus)) (over bool) {
	status := p.generate(r, pod, observed, stage, runtime.Progress{})
	if edit != nil {
		edit(status)
	}
	p.tell(r, pod, status)
	return podfacts.IsTerminal(status.Phase)
}

// publishProgress publishes an intermediate status of a sync. The exit of the whole pod may be
// caused by the sync itself, which is about to restart a container. Such an exit is published only
// after the sync has returned, if the pod is still terminated.
func (p *Pods) publishProgress(r *record, pod *v1.Pod, now runtime.Progress) {
	r.starts.Apply(now.Done)
	if status := p.generate(r, pod, now.Status, podstatus.StageSync, now); !podfacts.IsTerminal(status.Phase) {
		p.tell(r, pod, status)
	}
}

// explain publishes the last status again, with the error of the last call as message of waiting
// containers.
func (p *Pods) explain(r *record, pod *v1.Pod) {
	if shown := r.shown.Load(); shown != nil {
		status := shown.status().DeepCopy()
		podstatus.SetWaitingMessage(status, r.complaint)
		p.tell(r, pod, status)
	}
}

// tell stores a status and calls Options.Status for the first and for each changed status.
func (p *Pods) tell(r *record, pod *v1.Pod, status *v1.PodStatus) {
	before, last := r.lastStatus(pod), r.shown.Load()
	isNew := !semantic.Equal(before, status)
	shown := &shownPod{pod: pod}
	if isNew {
		shown.own = status
	} else if last != nil {
		shown.own = last.own
	}
	r.shown.Store(shown)
	if (isNew || last == nil) && p.opts.Status != nil {
		p.opts.Status(pod, *status)
	}
}

// generate computes the pod's status. At StageSync, generate first reports the running containers
// to the probes. The status then includes verdicts that the probes adopted for containers of an
// earlier agent.
func (p *Pods) generate(r *record, pod *v1.Pod, observed *runtime.PodStatus, stage podstatus.Stage, now runtime.Progress) *v1.PodStatus {
	previous := *r.lastStatus(pod)
	in := podstatus.Input{
		Pod: pod, Observed: observed, Previous: &previous, StartFailures: r.starts, Restarting: now.Restarting,
		HostIPs: p.opts.Generator.HostIPs, Stage: stage, Now: time.Now(),
		Actuated: func(id runtime.ContainerID) (v1.ResourceRequirements, bool) {
			return p.opts.Manager.Actuated(pod.UID, id)
		},
	}
	probes := p.opts.Probes
	if probes != nil {
		in.Started = func(id runtime.ContainerID) bool { ok, _ := probes.Started(id.String()); return ok }
		in.Ready = func(id runtime.ContainerID) bool { ok, _ := probes.Ready(id.String()); return ok }
	}
	for _, h := range p.opts.Hooks {
		if h.Input != nil {
			h.Input(pod, &in)
		}
	}
	// A resize may have been granted by an earlier agent. The status shows a container that the sync
	// replaces with its earlier resources.
	resizes := p.opts.Manager.Resizes(pod, observed) || len(now.Restarting) > 0 && podfacts.IsTrue(previous.Conditions, v1.PodResizeInProgress)
	in.Resizing.UnderWay = in.Resizing.UnderWay || now.Resizing || stage == podstatus.StageSync && resizes
	p.applyDeadline(&in)
	status := podstatus.Generate(in)
	if has := podfacts.HasProbes(&pod.Spec); probes != nil && stage == podstatus.StageSync && (has || r.probed) {
		r.probed = true
		probes.Observe(pod, &status)
		if has {
			status = podstatus.Generate(in)
		}
	}
	podstatus.SetWaitingMessage(&status, r.complaint)
	return &status
}
