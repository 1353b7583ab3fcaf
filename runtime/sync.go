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

// SyncRequest is a request to bring a pod in line with its spec.
type SyncRequest struct {
	Pod *v1.Pod // never written
	// Status is the caller's last observation of the pod. Set Status only if nothing changed since.
	// Defaults to reading the status.
	Status *PodStatus
	// Probes has the latest results. Defaults to success for every probe.
	Probes Probes
	// Finished adds the caller's knowledge about containers whose records were removed, see
	// PlanInput. The Manager already considers its own observations and Pod.Status. Only a caller
	// that keeps another status of the pod, for example of a static pod across restarts, has
	// something to add. If SyncPod has removed the records of a container, the container starts again
	// and SyncPod does not call Finished. Defaults to no additions.
	Finished func(container string, made *ContainerStatus) bool

	// Changed receives a value when the pod may have changed without a call. While a container is
	// slow to start or to stop (a hook, a pull, a grace period), SyncPod then handles the other
	// containers of the pod. Defaults to never.
	Changed <-chan struct{}
	// Progress is called with intermediate states: while containers are still in progress; before a
	// further pass, which would restart containers that ended meanwhile; and before the removal of
	// records that hold the exits of init containers. SyncPod calls Progress in its own goroutine.
	// Defaults to no calls.
	Progress func(Progress)
	// ImageFound is called with the image of each container before its creation. Defaults to no
	// calls.
	ImageFound ImageFound
}

// Progress is an intermediate state of a SyncPod.
type Progress struct {
	Status *PodStatus // current status of the pod
	Done   []Step     // steps up to now
	// Restarting lists containers that are being restarted: an ended instance of such a container
	// does not mean that the container has ended. SyncPod stops the instance in order to start a
	// new one, or replaces a successor that never ran.
	Restarting []string
	// Resizing: containers do not have the resources of the spec yet, and the call changes the
	// resources or waits for sidecars before it does.
	Resizing bool
}

// maxPasses is the maximum number of passes of a SyncPod. A pod needs about one pass per sidecar.
// The next call does the remaining work.
const maxPasses = 16

// SyncPod plans and carries out: it kills containers, makes the sandbox, and starts containers. It
// then plans again from the new observations, as long as a pass has an effect: for example, a
// running sidecar lets the next container start. Containers are independent of each other: a slow
// start or hook delays no other start or kill. Only init containers start one after the other.
// SyncPod does not wait for the ends of containers. The caller syncs again after a change.
//
// SyncPod returns when all its goroutines and calls have ended. When ctx ends, SyncPod returns as soon
// as the backend returns. The next call continues from the remaining state. Result.Err is then the
// cause of ctx. Result.RetryAt returns the time of the next call.
func (m *Manager) SyncPod(ctx context.Context, req SyncRequest) Result {
	r := m.syncPod(ctx, req)
	m.schedule(ctx, req.Pod.UID, &r)
	return r
}

func (m *Manager) syncPod(ctx context.Context, req SyncRequest) Result {
	r := Result{Status: req.Status}
	if r.Status == nil {
		if m.observe(ctx, &r, podName(req.Pod), req.Pod.UID); r.err != nil {
			return r
		}
	}
	resizing := m.resizer != nil
	for range maxPasses {
		m.see(req.Pod, r.Status)
		in := m.planInput(&req, r.Status)
		if resizing {
			in.Actuated = m.resizer.actuatedOf(req.Pod, r.Status)
		}
		actions := Plan(in)
		r.ResizeWaits = actions.ResizeWaits
		if r.left = !actions.Empty(); !r.left || r.inVain(&actions) {
			break
		}
		told := len(r.Plans) > 0 && req.Progress != nil
		if told {
			req.Progress(Progress{Status: r.Status, Done: slices.Clone(r.Steps), Resizing: actions.resizing()})
		}
		p := &pass{m: m, req: &req, pod: req.Pod, status: r.Status, actions: actions, sandbox: actions.Sandbox, told: told, began: time.Now()}
		p.run(ctx)
		r.Plans = append(r.Plans, actions)
		r.Steps = append(append(r.Steps, p.list...), p.resized.list...)
		m.observe(ctx, &r, podName(req.Pod), req.Pod.UID)
		// After a pass without an effect the next plan would be the same: all steps wait for a known time.
		if r.err != nil || p.broke() || !p.outdated && len(p.resized.list) == 0 && !p.hadEffect() {
			break
		}
		// The next call handles a failed resize. Other work continues.
		resizing = resizing && !p.resized.failed()
	}
	return r
}

// schedule determines the time of the pod's next call.
func (m *Manager) schedule(ctx context.Context, uid types.UID, r *Result) {
	how := endDone
	_, waits := r.RetryAt()
	switch {
	case ctx.Err() != nil:
		how = endCut
	case r.Failed():
		how = endFailed
		if r.onlyHooksFailed() {
			how = endLeft // the back-off of the containers bounds their restarts
		}
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

// inVain reports whether the plan only repeats the successful kills of the last plan. In that case
// the runtime lost track of the stopped containers, and the next call tries again.
func (r *Result) inVain(next *Actions) bool {
	return len(r.Plans) > 0 && len(next.Start) == 0 && !next.CreateSandbox && reflect.DeepEqual(*next, r.Plans[len(r.Plans)-1])
}

func (m *Manager) planInput(req *SyncRequest, status *PodStatus) PlanInput {
	return PlanInput{Pod: req.Pod, Status: status, Probes: req.Probes, Finished: m.finished(req)}
}

// observe reads the pod. An interrupted call is an error, even if all of its steps succeeded.
func (m *Manager) observe(ctx context.Context, r *Result, name string, uid types.UID) {
	if ctx.Err() == nil {
		status, err := m.rt.PodStatus(ctx, uid)
		if err != nil {
			r.err = fmt.Errorf("pod %s: read its status: %w", name, err)
		}
		r.Status = status
	}
	if ctx.Err() != nil {
		r.err, r.Status = context.Cause(ctx), nil
	}
}

// pass carries out a single plan.
type pass struct {
	steps
	m       *Manager
	req     *SyncRequest
	pod     *v1.Pod
	status  *PodStatus
	actions Actions
	sandbox SandboxID
	ips     []string
	images  *podImages // nil if the runtime does not implement Images
	resized steps
	told    bool // Progress was called with status
	began   time.Time
	// outdated: a start was cancelled because the pod has changed since the plan.
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
		p.takeAddresses(p.status)
	}
	p.runUnits(ctx)
}

// takeAddresses takes the pod's addresses from its current sandbox.
func (p *pass) takeAddresses(status *PodStatus) {
	if cur := status.Current(); cur != nil {
		p.ips = cur.IPs
	}
}

// killPod stops all containers and sandboxes. Before a new sandbox it removes the records of init
// containers: init starts over, and init containers of an older sandbox must not count
// (kubernetes#137710). The result false ends the pass.
func (p *pass) killPod(ctx context.Context) bool {
	p.list = append(p.list, p.m.killAll(ctx, p.pod, p.status, nil)...)
	if p.failed() || ctx.Err() != nil {
		return false
	}
	if !p.actions.CreateSandbox {
		return true
	}
	if len(p.status.Running()) > 0 {
		// A stopped container may have completed, and an ended pod gets no new sandbox. The next
		// plan uses the exits.
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
		if !told { // the exits cannot be read after the removal
			p.req.Progress(Progress{Status: p.status, Done: slices.Clone(p.list)})
			told = true
		}
		kept := *c
		kept.Annotations = nil        // no crash-loop delay in a new sandbox
		p.m.remember(p.pod.UID, kept) // before the removal: a failed call may have removed the record
		if !p.remove(ctx, c) {
			return false
		}
	}
	return true
}

// remove removes the record of an instance. The result false ends the pass.
func (p *pass) remove(ctx context.Context, c *ContainerStatus) bool {
	if err := gone(p.m.rt.RemoveContainer(ctx, c.ID)); err != nil {
		p.fail(ctx, &StepError{Action: removeContainer, Target: c.Name, Reason: errRemoveContainer, Cause: err})
		return false
	}
	p.done(removeContainer, c.Name)
	return true
}

// createSandbox makes the sandbox and reads the pod's addresses. The result false ends the pass.
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
	if err == nil {
		p.sandbox, err = p.m.rt.RunSandbox(ctx, spec)
		release()
	}
	if err != nil {
		return refuse(errCreatePodSandbox, err)
	}
	p.done(createPodSandbox, podName(p.pod))
	if p.pod.Spec.HostNetwork || !p.m.usesAddresses(p.pod) {
		return ctx.Err() == nil
	}
	status, err := p.m.rt.PodStatus(ctx, p.pod.UID)
	if err != nil {
		return refuse(errCreatePodSandbox, fmt.Errorf("read the addresses of the new sandbox: %w", err))
	}
	p.takeAddresses(status)
	return ctx.Err() == nil
}
