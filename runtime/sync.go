// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SyncRequest asks for one pod to be brought in line with its spec.
type SyncRequest struct {
	Pod *v1.Pod // never written
	// Status is what the caller last saw of the pod, if it is sure that nothing
	// changed since. Defaults to reading it.
	Status *PodStatus
	// Probes are the latest results. Defaults to success for everything.
	Probes Probes
	// Finished adds to what the Manager knows of containers whose records were removed;
	// see PlanInput. The Manager goes by what it has seen of the pod, and by Pod.Status, so
	// only a caller that keeps another status of the pod (of a static pod, over a restart)
	// has something to add. Defaults to nothing. It is not asked about containers whose
	// records SyncPod itself removes to start them again.
	Finished func(container string, made *ContainerStatus) bool

	// Changed receives a value when the pod may have changed by itself. While
	// some container is slow to start or to stop (a hook, a pull, a grace
	// period), SyncPod then looks after its siblings: the call for the pod goes
	// on, but not at their expense. Defaults to never.
	Changed <-chan struct{}
	// Progress is told how far SyncPod has come: while containers are still under way; before SyncPod, having done what it could,
	// goes on, since what ended meanwhile is then started again; and before records
	// are removed that say how init containers have ended. It is called by
	// SyncPod's own goroutine. Defaults to nobody.
	Progress func(Progress)
	// ImageFound is told of the image of each container that is about to be
	// created. Defaults to nobody.
	ImageFound ImageFound
}

// Progress is how far a SyncPod has come.
type Progress struct {
	Status *PodStatus // what the pod looks like now
	Done   []Step     // so far
	// Restarting are the containers that are being stopped in order to be started
	// again, or made anew since what was to follow the instance that ended never ran:
	// that it has ended says nothing of whether the container has.
	Restarting []string
}

// maxPasses bounds one SyncPod. A pod needs about one pass for each sidecar; what
// is left after that is left to the next call.
const maxPasses = 16

// SyncPod plans and carries out: kill what must go, make the sandbox, start what
// may start; and again, with what it then observes, as long as that leads to
// something new: a sidecar that runs lets its successor start. Containers are
// independent of each other: a slow start or hook delays neither its siblings'
// starts nor their kills; only init containers start in order. It does not wait
// for containers to end: the caller syncs again when something changed.
//
// It returns when everything it began has ended. When ctx ends it returns as
// soon as the backend lets it, leaving only state that the next call picks up;
// Result.Err is then ctx's cause. Result.RetryAt says when the next call is due.
func (m *Manager) SyncPod(ctx context.Context, req SyncRequest) Result {
	r := m.syncPod(ctx, req)
	m.schedule(ctx, req.Pod.UID, &r)
	return r
}

func (m *Manager) syncPod(ctx context.Context, req SyncRequest) Result {
	r := Result{Status: req.Status}
	if r.Status == nil {
		if r.Status, r.err = m.rt.PodStatus(ctx, req.Pod.UID); r.err != nil {
			return Result{err: fmt.Errorf("pod %s: read its status: %w", podName(req.Pod), r.err)}
		}
	}
	resizing := m.resizer != nil
	for range maxPasses {
		m.see(req.Pod, r.Status)
		in := m.planInput(&req, r.Status)
		if resizing {
			in.Actuated = m.resizer.of(req.Pod, r.Status)
		}
		actions := Plan(in)
		r.ResizeWaits = actions.ResizeWaits
		if r.left = !actions.Empty(); !r.left || r.inVain(&actions) {
			break
		}
		told := len(r.Plans) > 0 && req.Progress != nil
		if told {
			req.Progress(Progress{Status: r.Status, Done: slices.Clone(r.Steps)})
		}
		p := &pass{m: m, req: &req, pod: req.Pod, status: r.Status, actions: actions, sandbox: actions.Sandbox, told: told, began: time.Now()}
		p.run(ctx)
		r.Plans = append(r.Plans, actions)
		r.Steps = append(append(r.Steps, p.list...), p.resized.list...)
		changed := len(p.list)+len(p.resized.list) > 0 || p.outdated
		m.observe(ctx, &r, podName(req.Pod), req.Pod.UID, changed)
		if r.err != nil || p.failed() || !changed {
			break
		}
		// One that failed is for the next call; what else there is to do goes on.
		resizing = resizing && !p.resized.failed()
	}
	return r
}

// schedule decides when the pod's next call is due.
func (m *Manager) schedule(ctx context.Context, uid types.UID, r *Result) {
	how := endDone
	_, waits := r.RetryAt()
	switch {
	case ctx.Err() != nil:
		how = endCut
	case r.Failed():
		how = endFailed
	case r.left && !waits:
		how = endLeft
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var failures int
	if r.again, failures = how.again(m.mu.failures[uid], time.Now()); failures > 0 {
		m.mu.failures[uid] = failures
	} else {
		delete(m.mu.failures, uid)
	}
}

// inVain reports whether the plan is to kill just what the last one has killed, well
// as it seemed: a runtime that does not know what it has stopped either is asked again
// by the next call.
func (r *Result) inVain(next *Actions) bool {
	return len(r.Plans) > 0 && len(next.Start) == 0 && !next.CreateSandbox && reflect.DeepEqual(*next, r.Plans[len(r.Plans)-1])
}

func (m *Manager) planInput(req *SyncRequest, status *PodStatus) PlanInput {
	return PlanInput{Pod: req.Pod, Status: status, Probes: req.Probes, Finished: m.finished(req)}
}

// observe reads the pod again if a step was taken. A call that was interrupted
// is an error even if every step that it got to went well.
func (m *Manager) observe(ctx context.Context, r *Result, name string, uid types.UID, changed bool) {
	if ctx.Err() != nil {
		r.err, r.Status = context.Cause(ctx), nil
		return
	}
	if !changed {
		return
	}
	status, err := m.rt.PodStatus(ctx, uid)
	if err != nil {
		r.err = fmt.Errorf("pod %s: read its status: %w", name, err)
	}
	r.Status = status
}

// pass is one plan being carried out.
type pass struct {
	steps
	m       *Manager
	req     *SyncRequest
	pod     *v1.Pod
	status  *PodStatus
	actions Actions
	sandbox SandboxID
	ips     []string
	images  *podImages // nil if the runtime knows no images
	resized steps
	told    bool // Progress was told of status
	began   time.Time
	// outdated: a start was given up since the pod had changed.
	outdated bool
}

func (p *pass) run(ctx context.Context) {
	if p.m.images != nil {
		p.images = p.m.images.forPass(p.req)
	}
	if p.actions.KillPod && !p.killPod(ctx) {
		return
	}
	if p.actions.CreateSandbox {
		if p.images != nil {
			p.images.prefetch(ctx, p.actions.Start)
			defer p.images.join()
		}
		if !p.createSandbox(ctx) {
			return
		}
	}
	if !p.actions.CreateSandbox {
		if cur := p.status.Current(); cur != nil {
			p.ips = cur.IPs
		}
	}
	p.runUnits(ctx)
}

// killPod stops everything and, where a new sandbox follows, removes the
// records of init containers: init starts over, and what an older sandbox's
// init containers did must not count (kubernetes#137710). False ends the pass.
func (p *pass) killPod(ctx context.Context) bool {
	p.list = append(p.list, p.m.killAll(ctx, p.pod, p.status, nil)...)
	if p.failed() || ctx.Err() != nil {
		return false
	}
	if !p.actions.CreateSandbox {
		return true
	}
	if len(p.status.Running()) > 0 {
		// What was stopped may have completed by that, and a pod that is over gets
		// no new sandbox: the next plan looks at how it ended.
		return false
	}
	if p.actions.Sandbox != "" {
		p.m.podEvent(p.pod, v1.EventTypeNormal, eventSandboxChanged, "Pod sandbox changed, it will be killed and re-created.")
	}
	told := p.told || p.req.Progress == nil
	for i := range slices.Backward(p.status.Containers) { // see RemovePod
		c := &p.status.Containers[i]
		if ref, ok := Find(p.pod, c.Name); !ok || ref.Group != GroupInit {
			continue
		}
		if !told { // how they ended nobody can look up any more
			p.req.Progress(Progress{Status: p.status, Done: slices.Clone(p.list)})
			told = true
		}
		kept := *c
		kept.Annotations = nil        // a new sandbox owes no crash-loop delay
		p.m.remember(p.pod.UID, kept) // first: what is answered with an error may be done
		if !p.remove(ctx, c) {
			return false
		}
	}
	return true
}

// remove takes one instance's record away. False ends the pass.
func (p *pass) remove(ctx context.Context, c *ContainerStatus) bool {
	if err := gone(p.m.rt.RemoveContainer(ctx, c.ID)); err != nil {
		p.fail(ctx, &StepError{Action: removeContainer, Target: c.Name, Reason: errRemoveContainer, Cause: err})
		return false
	}
	p.done(removeContainer, c.Name)
	return true
}

// createSandbox makes the sandbox and learns the pod's addresses. False ends
// the pass.
func (p *pass) createSandbox(ctx context.Context) bool {
	refuse := func(reason, cause error) bool {
		e := &StepError{Action: createPodSandbox, Target: podName(p.pod), Reason: reason, Cause: cause}
		if p.fail(ctx, e) {
			p.m.podEvent(p.pod, v1.EventTypeWarning, eventFailedCreatePodSandBox, "Failed to create pod sandbox: "+cause.Error())
		}
		return false
	}
	spec, err := p.m.gen.Sandbox(ctx, p.pod, p.actions.Attempt)
	if err != nil {
		return refuse(errConfigPodSandbox, err)
	}
	release, err := p.m.slots.acquire(ctx, slotSandbox)
	if err != nil {
		return false
	}
	p.sandbox, err = p.m.rt.RunSandbox(ctx, spec)
	release()
	if err != nil {
		return refuse(errCreatePodSandbox, err)
	}
	p.done(createPodSandbox, podName(p.pod))
	if p.pod.Spec.HostNetwork || len(p.actions.Start) == 0 {
		return ctx.Err() == nil
	}
	status, err := p.m.rt.PodStatus(ctx, p.pod.UID)
	if err != nil {
		return refuse(errCreatePodSandbox, fmt.Errorf("read the addresses of the new sandbox: %w", err))
	}
	if cur := status.Current(); cur != nil && cur.ID == p.sandbox {
		p.ips = cur.IPs
	}
	return ctx.Err() == nil
}
