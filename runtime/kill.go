// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// KillRequest is a request to stop all containers of a pod.
type KillRequest struct {
	// UID is the UID of the pod. Required unless Pod is set.
	UID types.UID
	// Pod is the pod with its spec, never written. If Pod is nil, because only the runtime knows
	// the pod, the annotations of each container determine how to stop it.
	Pod *v1.Pod
	// Status is the caller's last observation of the pod. Defaults to reading the status.
	Status *PodStatus
	// Grace overrides the grace period of every container. The minimum is one second. Defaults to
	// none.
	Grace *time.Duration
}

// KillPod stops every container of a pod that runs or may run. Regular containers stop at the same
// time. A sidecar waits for the regular containers and for the sidecars after it. Then KillPod
// stops the pod's sandboxes. Nothing is removed. After an interruption by ctx, KillPod can be
// called again, also with a shorter grace period. Result.Status shows whether a container still
// runs. KillPod reads the status after the stop, unless all containers had exited before. If a step
// failed, or a container may still run, Result.RetryAt returns the time of the next call.
func (m *Manager) KillPod(ctx context.Context, req KillRequest) Result {
	pod := req.Pod
	if pod == nil {
		pod = &v1.Pod{}
		pod.UID = req.UID
	}
	r := m.stopPod(ctx, pod, &req)
	r.left = len(r.Status.Running()) > 0
	m.unsee(pod.UID) // a later pod with the same UID is a new pod
	m.schedule(ctx, pod.UID, &r)
	return r
}

func (m *Manager) stopPod(ctx context.Context, pod *v1.Pod, req *KillRequest) Result {
	r := Result{Status: req.Status}
	if r.Status == nil {
		name := string(pod.UID)
		if req.Pod != nil {
			name = podName(pod)
		}
		if m.observe(ctx, &r, name, pod.UID); r.err != nil {
			return r
		}
	}
	if req.Pod == nil {
		pod.Namespace, pod.Name = r.Status.Namespace, r.Status.Name
	}
	status := r.Status
	r.Steps = m.killAll(ctx, pod, status, req.Grace)
	if status.exited() && ctx.Err() == nil && r.Err() == nil {
		r.Status = status.withoutReadySandbox() // a stopped sandbox is not ready, and no exit code is missing
		return r
	}
	m.observe(ctx, &r, podName(pod), pod.UID)
	return r
}

// killAll kills the running containers, then stops the ready sandboxes. After a failed kill the
// sandbox is stopped, too, because its end may still end the container.
func (m *Manager) killAll(ctx context.Context, pod *v1.Pod, status *PodStatus, grace *time.Duration) []Step {
	var all steps
	all.list = m.killContainers(ctx, pod, status, status.Running(), grace)
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

// killContainers kills running containers of a pod, all at the same time but for the order of turns.
func (m *Manager) killContainers(ctx context.Context, pod *v1.Pod, status *PodStatus, running []*ContainerStatus, grace *time.Duration) (list []Step) {
	turns := newTurns(pod, running)
	collected := make([]steps, len(running))
	var wg sync.WaitGroup
	for i, c := range running {
		wg.Go(func() {
			defer turns.end[c.Name]()
			k := kill{pod: pod, instance: c, podIPs: status.addressesOf(c), reason: killPodTerminating, override: grace, turn: turns.wait}
			if ref, ok := Find(pod, c.Name); ok {
				k.container = ref.Container(pod)
			} else {
				k.pod, k.container = restorePod(status, c)
			}
			m.killContainer(ctx, k, &collected[i])
		})
	}
	wg.Wait()
	for i := range collected {
		list = append(list, collected[i].list...)
	}
	return list
}

// kill is a container to stop.
type kill struct {
	pod       *v1.Pod
	container *v1.Container
	instance  *ContainerStatus
	podIPs    []string // for preStop
	reason    KillReason
	message   string
	override  *time.Duration
	skipHook  bool // no time is left for preStop
	// turn waits, at most for limit, until the container may be stopped.
	turn func(ctx context.Context, name string, limit time.Duration)
}

// killContainer runs preStop, waits for the container's turn and stops the container, all within
// the grace period. The result reports whether the container is stopped.
func (m *Manager) killContainer(ctx context.Context, k kill, out *steps) bool {
	grace := gracePeriod(k.pod, k.container, k.reason)
	if k.override != nil {
		grace = max(*k.override, minGracePeriod)
	}
	message := "Container " + k.container.Name + " " + k.message
	switch {
	case k.message == "":
		message = "Stopping container " + k.container.Name
	case k.reason == killFailedPostStart:
		message = k.message
	}
	m.containerEvent(k.pod, k.container.Name, v1.EventTypeNormal, eventKilling, message)
	began := time.Now()
	if l := k.container.Lifecycle; l != nil && l.PreStop != nil && !k.skipHook {
		m.preStop(ctx, k, grace)
	}
	if k.turn != nil {
		k.turn(ctx, k.container.Name, left(began, grace))
	}
	rest := max(left(began, grace), minGracePeriod)
	if err := gone(m.rt.StopContainer(ctx, k.instance.ID, rest)); err != nil {
		out.fail(ctx, &StepError{Action: KillContainer, Target: k.container.Name, Reason: errKillContainer, Cause: err})
		return false
	}
	out.done(KillContainer, k.container.Name)
	return true
}

// preStop runs the hook for at most the grace period. The container is stopped afterwards in any
// case.
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

// turns is the order in which the containers of a pod are stopped: a sidecar follows every regular
// container and the sidecars behind it in the spec. Containers that do not run delay no other
// container (kubernetes#125880).
type turns struct {
	over map[string]chan struct{} // closed at the end of the container's kill, also after a failure
	end  map[string]func()        // closes the channel once
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
		over := time.After(limit)
		for _, before := range prerequisites(pod, name) {
			ch, ok := t.over[before]
			if !ok {
				continue
			}
			select {
			case <-ch:
			case <-over:
				return
			case <-ctx.Done():
				return
			}
		}
	}
	return t
}

// prerequisites lists the containers that must end before name is stopped.
func prerequisites(pod *v1.Pod, name string) []string {
	ref, ok := Find(pod, name)
	if !ok || ref.Group != GroupInit || !podfacts.IsSidecar(ref.Container(pod)) {
		return nil
	}
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := ref.Index + 1; i < len(pod.Spec.InitContainers); i++ {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			names = append(names, c.Name)
		}
	}
	return names
}
