// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// errResizePodInPlace is the reason of a failed ResizePodInPlace step.
var errResizePodInPlace = errors.New("ResizePodInPlaceError")

// ResizePodInPlace is the step that changes the resources of all resized containers of a pod in a
// pass. After a failure some containers may have been changed. The next plan includes the others.
const ResizePodInPlace StepAction = "ResizePodInPlace"

// resizer changes resources and remembers the last values.
//
// The values are in memory only. A new manager assumes the resources of each container at its
// creation (annotationResources), corrected by the values that the backend reports: see
// atFirstSight. In the worst case the current values of a container are set again.
type resizer struct {
	updater Updater
	meter   MemoryMeter // nil: memory limits are never lowered
	mu      struct {
		sync.Mutex
		actuated map[types.UID]map[ContainerID]actuated
	}
}

// actuated has the last resources of a running instance.
type actuated struct {
	resources v1.ResourceRequirements // never written
	unsure    bool                    // a later update failed, or another agent made it
}

// newResizer returns nil for a runtime without Updater.
func newResizer(rt Runtime) *resizer {
	updater, ok := rt.(Updater)
	if !ok {
		return nil
	}
	r := &resizer{updater: updater}
	r.meter, _ = rt.(MemoryMeter)
	r.mu.actuated = make(map[types.UID]map[ContainerID]actuated)
	return r
}

// actuatedOf returns PlanInput.Actuated for an observation of pod.
func (r *resizer) actuatedOf(pod *v1.Pod, status *PodStatus) func(string) (v1.ResourceRequirements, bool) {
	return func(name string) (v1.ResourceRequirements, bool) {
		ref, ok := Find(pod, name)
		st := status.Latest(name)
		if ref.Group == GroupInit {
			st = status.Active(name)
		}
		if !ok || st == nil {
			return v1.ResourceRequirements{}, false
		}
		if a, ok := r.recall(pod.UID, st.ID); ok {
			return a.resources, !a.unsure
		}
		first := atFirstSight(pod, ref.Container(pod), st).requirements()
		r.remember(pod.UID, status, st.ID, actuated{resources: first})
		return first, true
	}
}

func (r *resizer) recall(uid types.UID, id ContainerID) (actuated, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.mu.actuated[uid][id]
	return a, ok
}

// remember records the resources of an instance, and deletes those of instances missing from
// status.
func (r *resizer) remember(uid types.UID, status *PodStatus, id ContainerID, a actuated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byID := r.mu.actuated[uid]
	if byID == nil {
		byID = make(map[ContainerID]actuated)
		r.mu.actuated[uid] = byID
	}
	recorded := make(map[ContainerID]bool, len(status.Containers))
	for i := range status.Containers {
		recorded[status.Containers[i].ID] = true
	}
	maps.DeleteFunc(byID, func(id ContainerID, _ actuated) bool { return !recorded[id] })
	byID[id] = a
}

// forget deletes the records of a pod.
func (r *resizer) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.actuated, uid)
}

// carryOut carries out the steps in order, up to the first failure. If a memory limit cannot be
// lowered, no step is carried out.
func (r *resizer) carryOut(ctx context.Context, uid types.UID, status *PodStatus, list []Resize) error {
	if err := r.checkMemory(ctx, list); err != nil {
		return err
	}
	for i := range list {
		step := &list[i]
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := gone(r.updater.UpdateResources(ctx, step.ID, step.To))
		if err != nil {
			// The failed call may have changed the resources.
			r.remember(uid, status, step.ID, actuated{resources: step.From, unsure: true})
			return fmt.Errorf("container %s, %s: %w", step.Name, step.Cause, err)
		}
		r.remember(uid, status, step.ID, actuated{resources: step.To})
	}
	return nil
}

// checkMemory refuses a memory limit at or below the memory in use, because the kernel would kill a
// process.
func (r *resizer) checkMemory(ctx context.Context, list []Resize) error {
	var refusal error
	refuse := func(err error) {
		if refusal != nil {
			err = fmt.Errorf("%w; %w", refusal, err)
		}
		refusal = err
	}
	for i := range list {
		step := &list[i]
		limit := demandIn(&step.To).MemoryLimit
		if !limitFalls(demandIn(&step.From).MemoryLimit, limit) {
			continue
		}
		if r.meter == nil {
			refuse(fmt.Errorf("container %s: its usage: %w", step.Name, ErrUnsupported))
			continue
		}
		switch used, err := r.meter.MemoryUsage(ctx, step.ID); {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			refuse(fmt.Errorf("container %s: its usage: %w", step.Name, err))
		case used >= limit:
			refuse(fmt.Errorf("container %s uses %d bytes, not less than the new limit of %d", step.Name, used, limit))
		}
	}
	if refusal != nil {
		return fmt.Errorf("cannot decrease memory limits: %w", refusal)
	}
	return nil
}

// resize carries out the plan's resizes one after the other, beside the plan's kills and starts.
func (p *pass) resize(ctx context.Context) {
	err := p.m.resizer.carryOut(ctx, p.pod.UID, p.status, p.actions.Resize)
	if err != nil {
		p.resized.fail(ctx, &StepError{Action: ResizePodInPlace, Target: podName(p.pod), Reason: errResizePodInPlace, Cause: err})
		return
	}
	p.resized.done(ResizePodInPlace, podName(p.pod))
}

// Actuated returns the last cpu and memory of an instance of a pod's container, for
// podstatus.Input. The second result is false if the values are unknown, and always if the runtime
// is no Updater. The result must not be modified.
func (m *Manager) Actuated(uid types.UID, id ContainerID) (v1.ResourceRequirements, bool) {
	if m.resizer == nil {
		return v1.ResourceRequirements{}, false
	}
	a, ok := m.resizer.recall(uid, id)
	return a.resources, ok
}

// Resizes reports whether a running container of pod has other resources than the pod's spec, or may
// have after a failed update. The next SyncPod of this spec resizes or restarts such a container.
// Resizes is false for a static pod, and if the runtime is no Updater.
func (m *Manager) Resizes(pod *v1.Pod, status *PodStatus) bool {
	if m.resizer == nil || podfacts.IsStatic(pod) {
		return false
	}
	p := planner{pod: pod, actuated: m.resizer.actuatedOf(pod, status)}
	resizes := func(c v1.Container) bool {
		st := status.Active(c.Name)
		return st != nil && st.State == StateRunning && p.misfit(&c)
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, resizes) || slices.ContainsFunc(pod.Spec.Containers, resizes)
}

// withResources returns annotations and annotationResources for a container. The caller owns the
// result.
func withResources(annotations map[string]string, pod *v1.Pod, c *v1.Container) map[string]string {
	out := make(map[string]string, len(annotations)+1)
	maps.Copy(out, annotations)
	out[annotationResources] = wantedBy(pod, c).record()
	return out
}

// skipsBackoff reports whether the unit's container starts without back-off, because its resources
// change (kubelet 1.32).
func skipsBackoff(u *unit, previous *ContainerStatus, pod *v1.Pod, c *v1.Container) bool {
	if u.kill != nil && u.kill.Reason == killResize {
		return true
	}
	if previous == nil {
		return false
	}
	wanted := wantedBy(pod, c)
	given, ok := givenTo(previous, wanted)
	return ok && given != wanted
}
