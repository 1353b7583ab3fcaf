// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
)

// KillRequest asks for everything of a pod to be stopped.
type KillRequest struct {
	// UID of the pod. Required unless Pod is set.
	UID types.UID
	// Pod is its spec, never written. Where it is nil (a pod that only the
	// runtime still knows) each container's own annotations say how to stop it.
	Pod *v1.Pod
	// Status is what the caller last saw of the pod. Defaults to reading it.
	Status *PodStatus
	// Grace overrides every container's own grace period; at least
	// MinGracePeriod is given. Defaults to none.
	Grace *time.Duration
}

// KillPod stops every container of a pod that runs or may run, all at once but
// for sidecars, which wait for the regular containers and for the sidecars
// after them; then it stops the pod's sandboxes. Nothing is removed. It can be
// called again, with a shorter grace as well, after ctx interrupted it.
// Result.Status is read afterwards: the caller sees there that nothing runs. If it
// failed, or something may still run, Result.RetryAt says when to call again.
func (m *Manager) KillPod(ctx context.Context, req KillRequest) Result {
	pod := req.Pod
	if pod == nil {
		pod = &v1.Pod{}
		pod.UID = req.UID
	}
	r := m.stopPod(ctx, pod, &req)
	r.left = len(r.Status.Running()) > 0
	m.unsee(pod.UID) // a pod of this UID that comes back begins anew
	m.schedule(ctx, pod.UID, &r)
	return r
}

func (m *Manager) stopPod(ctx context.Context, pod *v1.Pod, req *KillRequest) Result {
	status := req.Status
	if status == nil {
		var err error
		if status, err = m.rt.PodStatus(ctx, pod.UID); err != nil {
			return Result{err: err}
		}
	}
	if req.Pod == nil {
		pod.Namespace, pod.Name = status.Namespace, status.Name
	}
	r := Result{Status: status, Steps: m.killAll(ctx, pod, status, req.Grace)}
	m.observe(ctx, &r, podName(pod), pod.UID, len(r.Steps) > 0)
	return r
}

// killAll kills the running containers, then stops the ready sandboxes, also
// when a container could not be killed: the sandbox's end is its last chance.
func (m *Manager) killAll(ctx context.Context, pod *v1.Pod, status *PodStatus, grace *time.Duration) []Step {
	running := status.Running()
	turns := newTurns(pod, running)
	collected := make([]steps, len(running))
	var wg sync.WaitGroup
	for i, c := range running {
		wg.Go(func() {
			defer turns.end[c.Name]()
			k := kill{pod: pod, instance: c, podIPs: status.addressesOf(c), reason: KillPodTerminating, override: grace, turn: turns.wait}
			if ref, ok := Find(pod, c.Name); ok {
				k.container = ref.Container(pod)
			} else {
				k.pod, k.container = RestorePod(status, c)
			}
			m.killContainer(ctx, k, &collected[i])
		})
	}
	wg.Wait()
	var all steps
	for i := range collected {
		all.list = append(all.list, collected[i].list...)
	}
	for i := range status.Sandboxes {
		s := &status.Sandboxes[i]
		if !s.Ready || ctx.Err() != nil {
			continue
		}
		if err := gone(m.rt.StopSandbox(ctx, s.ID)); err != nil {
			all.fail(ctx, &StepError{Action: killPodSandbox, Target: string(s.ID), Reason: errKillPodSandbox, Cause: err})
			continue
		}
		all.done(killPodSandbox, string(s.ID))
	}
	return all.list
}

// kill is one container to be stopped.
type kill struct {
	pod       *v1.Pod
	container *v1.Container
	instance  *ContainerStatus
	podIPs    []string // for preStop
	reason    KillReason
	message   string
	override  *time.Duration
	skipHook  bool // there is no time for preStop
	// turn waits until this container may be told to stop, at most limit.
	turn func(ctx context.Context, name string, limit time.Duration)
}

// killContainer runs preStop, waits for the container's turn and stops it, all
// within the grace period. It reports whether the container is stopped.
func (m *Manager) killContainer(ctx context.Context, k kill, out *steps) bool {
	grace := GracePeriod(k.pod, k.container, k.reason)
	if k.override != nil {
		grace = max(*k.override, MinGracePeriod)
	}
	message := k.message
	if message == "" {
		message = "Stopping container " + k.container.Name
	}
	m.containerEvent(k.pod, k.container.Name, v1.EventTypeNormal, eventKilling, message)
	began := time.Now()
	if l := k.container.Lifecycle; l != nil && l.PreStop != nil && !k.skipHook {
		m.preStop(ctx, k, grace)
	}
	if k.turn != nil {
		k.turn(ctx, k.container.Name, left(began, grace))
	}
	rest := max(left(began, grace), MinGracePeriod)
	if err := gone(m.rt.StopContainer(ctx, k.instance.ID, rest)); err != nil {
		out.fail(ctx, &StepError{Action: KillContainer, Target: k.container.Name, Reason: errKillContainer, Cause: err})
		return false
	}
	out.done(KillContainer, k.container.Name)
	return true
}

// preStop runs the hook for at most the grace period. Whatever comes of it, the
// container is stopped next.
func (m *Manager) preStop(ctx context.Context, k kill, grace time.Duration) {
	hookCtx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := m.hooks.RunHook(hookCtx, HookCall{
		Pod: k.pod, Container: k.container, ID: k.instance.ID, PodIPs: k.podIPs, Handler: k.container.Lifecycle.PreStop,
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	m.containerEvent(k.pod, k.container.Name, v1.EventTypeWarning, eventFailedPreStopHook, "PreStopHook failed")
	m.log.Info("preStop hook failed, stopping the container all the same",
		zap.String("pod", podName(k.pod)), zap.String("container", k.container.Name), zap.Error(err))
}

// turns is the order in which a pod's containers are told to stop: a sidecar
// after every regular container and after the sidecars behind it in the spec.
// Containers that do not run hold nobody up (kubernetes#125880).
type turns struct {
	over map[string]chan struct{} // closed when that container's kill has ended, well or not
	end  map[string]func()        // closes it, once
	wait func(ctx context.Context, name string, limit time.Duration)
}

func newTurns(pod *v1.Pod, running []*ContainerStatus) *turns {
	t := &turns{
		over: make(map[string]chan struct{}, len(running)),
		end:  make(map[string]func(), len(running)),
	}
	for _, c := range running {
		if t.over[c.Name] == nil {
			ch := make(chan struct{})
			t.over[c.Name], t.end[c.Name] = ch, sync.OnceFunc(func() { close(ch) })
		}
	}
	t.wait = func(ctx context.Context, name string, limit time.Duration) {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for _, before := range prerequisites(pod, name) {
			ch, ok := t.over[before]
			if !ok {
				continue
			}
			select {
			case <-ch:
			case <-timer.C:
				return
			case <-ctx.Done():
				return
			}
		}
	}
	return t
}

// prerequisites lists the containers that end before name is told to.
func prerequisites(pod *v1.Pod, name string) []string {
	ref, ok := Find(pod, name)
	if !ok || ref.Group != GroupInit || !IsSidecar(ref.Container(pod)) {
		return nil
	}
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := ref.Index + 1; i < len(pod.Spec.InitContainers); i++ {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			names = append(names, c.Name)
		}
	}
	return names
}
