// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// start makes and starts a container, unless its back-off has not ended.
func (p *pass) start(ctx context.Context, u *unit) {
	container := u.start.Ref.Container(p.pod)
	previous := p.previous(u)
	hash := containermeta.Hash(container)
	owing := previous
	if p.actions.CreateSandbox || skipsBackoff(u, previous, p.pod, container) {
		owing = nil // an instance that ended with its sandbox did not crash
	}
	restart := p.m.backoff.next(owing, hash, time.Now())
	if restart.At.After(time.Now()) {
		p.backOff(ctx, u, restart)
		return
	}
	imageID, ok := p.ensureImage(ctx, u, container)
	if !ok {
		return
	}
	count := p.restartCount(previous, container.Name)
	if previous != nil && previous.State == StateCreated && p.instance(previous.ID) != nil {
		// The instance never ran. The next instance has the same restart count, and replaces this one.
		p.m.remember(p.pod.UID, *previous)
		if err := gone(p.m.rt.RemoveContainer(ctx, previous.ID)); err != nil {
			u.fail(ctx, &StepError{Action: removeContainer, Target: container.Name, Reason: errRemoveContainer, Cause: err})
			return
		}
	}
	id, ok := p.launch(ctx, u, container, imageID, ContainerInput{
		RestartCount: count,
		Hash:         hash,
		RestartDelay: restart.Delay,
		PodIPs:       p.ips,
	})
	if !ok {
		return
	}
	p.m.forget(p.pod.UID, container.Name)
	if !p.postStart(ctx, u, container, id) {
		return
	}
	u.done(StartContainer, container.Name)
	p.prune(ctx, container.Name)
}

// previous returns the newest instance of the unit's container: the instance just killed, else the
// newest record, else the remembered instance of a removed record.
func (p *pass) previous(u *unit) *ContainerStatus {
	latest := p.status.Latest(u.start.Name)
	if latest == nil {
		return p.m.recall(p.pod.UID, u.start.Name)
	}
	last := ended(*latest)
	return &last
}

// ended returns c as an instance that was stopped just now.
func ended(c ContainerStatus) ContainerStatus {
	if c.State != StateExited && c.State != StateCreated {
		c.State, c.FinishedAt = StateExited, time.Now()
	}
	return c
}

// restartCount returns the restart count of the next instance. If the predecessor never ran, the
// count does not grow, because nothing was restarted. The count is above that of every existing
// record, because an earlier agent with fewer records may have made the newest instance.
func (p *pass) restartCount(previous *ContainerStatus, name string) (count int32) {
	switch counter, ok := p.m.gen.(RestartCounter); {
	case previous != nil:
		count = countAfter(previous)
	case ok:
		count = counter.NextRestartCount(p.pod, name)
	}
	for i := range p.status.Containers {
		if c := &p.status.Containers[i]; c.Name == name {
			count = max(count, countAfter(c))
		}
	}
	return count
}

// countAfter returns the restart count of the successor of c.
func countAfter(c *ContainerStatus) int32 {
	if c.State == StateCreated {
		return c.RestartCount
	}
	return c.RestartCount + 1
}

func (p *pass) backOff(ctx context.Context, u *unit, r restart) {
	cause := fmt.Errorf("back-off %s restarting failed container=%s pod=%s_%s(%s), next try at %s",
		r.Wait, u.start.Name, p.pod.Name, p.pod.Namespace, p.pod.UID, r.At.UTC().Format(time.RFC3339))
	e := &StepError{Action: StartContainer, Target: u.start.Name, Reason: errCrashLoopBackOff, Cause: cause, RetryAt: r.At}
	if u.fail(ctx, e) {
		// Without the duration, so that recorders count the events of all back-offs as one.
		p.m.containerEvent(p.pod, u.start.Name, v1.EventTypeWarning, eventBackOff,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", u.start.Name, p.pod.Name, p.pod.Namespace, p.pod.UID))
	}
}

// ensureImage makes the container's image present, if the runtime implements Images.
func (p *pass) ensureImage(ctx context.Context, u *unit, c *v1.Container) (id string, ok bool) {
	if p.images == nil {
		return "", true
	}
	id, failure := p.images.ensure(ctx, c)
	if failure == nil {
		return id, true
	}
	e := &StepError{Action: StartContainer, Target: c.Name, Reason: failure.reason, Cause: failure.cause, RetryAt: failure.retryAt}
	if u.fail(ctx, e) {
		p.m.containerEvent(p.pod, c.Name, v1.EventTypeWarning, eventFailed, fmt.Sprintf("Error: %v", failure.reason))
	}
	return "", false
}

// launch generates the spec, creates the container and starts it. Between two steps launch ends if
// ctx has ended, so that a pod deleted meanwhile is not started (#125050).
func (p *pass) launch(ctx context.Context, u *unit, c *v1.Container, imageID string, in ContainerInput) (id ContainerID, ok bool) {
	refuse := func(reason, cause error) (ContainerID, bool) {
		e := &StepError{Action: StartContainer, Target: c.Name, Reason: reason, Cause: cause}
		if u.fail(ctx, e) {
			p.m.containerEvent(p.pod, c.Name, v1.EventTypeWarning, eventFailed, fmt.Sprintf("Error: %v", cause))
		}
		return ContainerID{}, false
	}
	spec, cleanup, err := p.m.gen.Container(ctx, p.pod, u.start.Ref, in)
	if cleanup != nil {
		defer cleanup()
	}
	if err != nil {
		return refuse(errCreateContainerConfig, err)
	}
	secrets := secretsOf(&spec)
	spec.ImageID = imageID
	spec.Annotations = withResources(spec.Annotations, p.pod, c)
	release, err := p.m.slots.acquire(ctx, slotContainer)
	if err != nil {
		return ContainerID{}, false
	}
	defer release()
	if time.Since(p.began) >= planLasts && len(sidecarsAhead(p.pod, u.start.Ref)) > 0 && !p.isStillDue(ctx, u) {
		return ContainerID{}, false
	}
	if id, err = p.m.rt.CreateContainer(ctx, p.sandbox, spec); err != nil {
		return refuse(errCreateContainer, secrets.Error(err))
	}
	p.m.containerEvent(p.pod, c.Name, v1.EventTypeNormal, eventCreated, "Container created")
	if ctx.Err() != nil {
		return ContainerID{}, false
	}
	if err = p.m.rt.StartContainer(ctx, id); err != nil {
		return refuse(errRunContainer, secrets.Error(err))
	}
	p.m.containerEvent(p.pod, c.Name, v1.EventTypeNormal, eventStarted, "Container started")
	return id, true
}

// postStart runs the hook. If the container ends, a hook other than a sleep is cancelled. If the
// hook fails, postStart kills the container.
func (p *pass) postStart(ctx context.Context, u *unit, c *v1.Container, id ContainerID) bool {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return true
	}
	call := HookCall{Pod: p.pod, Container: c, ID: id, PodIPs: p.ips, Handler: c.Lifecycle.PostStart}
	err := p.runStartHook(ctx, u, call)
	if err == nil {
		return true
	}
	e := &StepError{Action: StartContainer, Target: c.Name, Reason: errPostStartHook, Cause: err}
	if !u.fail(ctx, e) {
		return false
	}
	p.m.containerEvent(p.pod, c.Name, v1.EventTypeWarning, eventFailedPostStartHook, "PostStartHook failed")
	k := kill{
		pod: p.pod, container: c, instance: &ContainerStatus{ID: id, Name: c.Name, State: StateRunning},
		podIPs: p.ips, reason: killFailedPostStart, message: "FailedPostStartHook",
	}
	p.m.killContainer(ctx, k, &u.steps)
	return false
}

// runStartHook runs a postStart hook. A hook other than a sleep is cancelled when a look finds the
// container ended.
func (p *pass) runStartHook(ctx context.Context, u *unit, call HookCall) error {
	if call.Handler.Sleep != nil {
		return p.m.hooks.RunHook(ctx, call)
	}
	hookCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	u.hook.Store(&startHook{call.ID, cancel})
	err := p.m.hooks.RunHook(hookCtx, call)
	if err != nil && context.Cause(hookCtx) == errEndedDuringHook {
		return errEndedDuringHook
	}
	return err
}

// usesAddresses reports whether the pod's addresses are needed before its containers start.
func (m *Manager) usesAddresses(pod *v1.Pod) bool {
	if u, ok := m.gen.(AddressUser); !ok || u.UsesAddresses(pod) {
		return true
	}
	hooked := func(c v1.Container) bool { return c.Lifecycle != nil }
	return slices.ContainsFunc(pod.Spec.Containers, hooked) || slices.ContainsFunc(pod.Spec.InitContainers, hooked)
}
