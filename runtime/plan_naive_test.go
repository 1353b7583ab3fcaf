// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// naivePlan is a second implementation of the tables, for TestPlanProperty to
// compare with and for BenchmarkPlan10Containers to be measured against. It
// looks everything up in maps first and decides about each init container by
// itself, in closed form, where Plan walks backwards with state. It gives no
// causes.
func naivePlan(in runtime.PlanInput) naiveActions {
	n := newNaive(in)
	switch {
	case in.Pod.DeletionTimestamp != nil:
		return naiveActions{}
	case runtime.RestartAllTriggered(in.Pod, in.Status):
		return n.restartAll()
	case n.sandboxChanged():
		return n.replaceSandbox()
	default:
		return n.converge()
	}
}

type naiveActions struct {
	killPod, createSandbox bool
	kill                   []runtime.ContainerID
	start                  []runtime.Ref
	resize                 []naiveResize // in no order
}

type naive struct {
	runtime.PlanInput
	latest, active map[string]*runtime.ContainerStatus
	instances      []*runtime.ContainerStatus // of init and regular containers
	hashes         map[string]string
}

func newNaive(in runtime.PlanInput) *naive {
	n := &naive{PlanInput: in, hashes: map[string]string{}}
	n.latest, n.active = map[string]*runtime.ContainerStatus{}, map[string]*runtime.ContainerStatus{}
	for _, list := range [][]v1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
		for i := range list {
			n.hashes[list[i].Name] = containermeta.Hash(&list[i])
		}
	}
	if in.Status == nil {
		return n
	}
	ran := map[string]int32{} // one more than the highest count of the instances that ran
	for _, c := range in.Status.Containers {
		if c.State != runtime.StateCreated {
			ran[c.Name] = max(ran[c.Name], c.RestartCount+1)
		}
	}
	for i := range in.Status.Containers {
		c := &in.Status.Containers[i]
		late := c.State == runtime.StateCreated && !c.CreatedAt.IsZero() && c.RestartCount < ran[c.Name]
		if n.latest[c.Name] == nil && !late {
			n.latest[c.Name] = c
		}
		if n.active[c.Name] == nil && !late && in.Status.Sandboxes != nil &&
			in.Status.Sandboxes[0].Ready && c.Sandbox == in.Status.Sandboxes[0].ID {
			n.active[c.Name] = c
		}
		if _, ok := n.hashes[c.Name]; ok {
			n.instances = append(n.instances, c)
		}
	}
	return n
}

func (n *naive) sandboxChanged() bool {
	if n.Status == nil || len(n.Status.Sandboxes) == 0 {
		return true
	}
	ready := map[bool]int{}
	for _, s := range n.Status.Sandboxes {
		ready[s.Ready]++
	}
	s := n.Status.Sandboxes[0]
	wrongNetwork := s.HostNetwork != n.Pod.Spec.HostNetwork
	noIP := !n.Pod.Spec.HostNetwork && s.NetworkKnown && len(s.IPs) == 0
	return ready[true] != 1 || !s.Ready || wrongNetwork || noIP
}

func (n *naive) killPod() naiveActions {
	if n.Status == nil {
		return naiveActions{}
	}
	for _, s := range n.Status.Sandboxes {
		if s.Ready {
			return naiveActions{killPod: true}
		}
	}
	return naiveActions{killPod: len(n.Status.Running()) > 0}
}

// again is whether a container that does not run, or will have been killed, is
// to run.
func (n *naive) again(c *v1.Container) bool {
	st := n.latest[c.Name]
	policy := string(n.Pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = string(*c.RestartPolicy)
	}
	if st != nil && (st.State == runtime.StateRunning || st.State == runtime.StateUnknown) {
		return policy != "Never"
	}
	if (st == nil || st.State == runtime.StateCreated) && n.Finished != nil && n.Finished(c.Name, st) {
		return false
	}
	return runtime.ShouldRestart(n.Pod, c, st)
}

func (n *naive) replaceSandbox() naiveActions {
	out := naiveActions{killPod: true, createSandbox: true}
	for i := range n.Pod.Spec.Containers {
		c := &n.Pod.Spec.Containers[i]
		if n.again(c) {
			out.start = append(out.start, runtime.Ref{Group: runtime.GroupRegular, Index: i})
		}
	}
	if len(out.start) == 0 {
		return n.killPod()
	}
	for i := range n.Pod.Spec.InitContainers {
		c := &n.Pod.Spec.InitContainers[i]
		if st := n.latest[c.Name]; st != nil && n.initFailed(c, st) {
			return n.killPod()
		}
	}
	if len(n.Pod.Spec.InitContainers) > 0 {
		out.start = []runtime.Ref{{Group: runtime.GroupInit, Index: 0}}
	}
	return out
}

// initFailed is whether a plain init container failed for good.
func (n *naive) initFailed(c *v1.Container, st *runtime.ContainerStatus) bool {
	if podfacts.IsSidecar(c) || !st.Failed() {
		return false
	}
	if st.State == runtime.StateUnknown {
		return n.mayNotRetry(c)
	}
	return !runtime.ShouldRestart(n.Pod, c, st)
}

func (n *naive) mayNotRetry(c *v1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == v1.ContainerRestartPolicyNever
	}
	return n.Pod.Spec.RestartPolicy == v1.RestartPolicyNever
}

func (n *naive) restartAll() naiveActions {
	var out naiveActions
	if n.sandboxChanged() {
		return naiveActions{killPod: true, createSandbox: true}
	}
	var victims, triggers []runtime.ContainerID
	for _, list := range [][]v1.Container{n.Pod.Spec.Containers, n.Pod.Spec.InitContainers} {
		for k := range list {
			for i := range n.instances {
				st := n.instances[len(n.instances)-1-i]
				alone := &runtime.PodStatus{
					Sandboxes:  []runtime.SandboxStatus{{ID: st.Sandbox, Ready: true}},
					Containers: []runtime.ContainerStatus{*st},
				}
				switch {
				case st.Name != list[k].Name:
				case runtime.RestartAllTriggered(n.Pod, alone):
					triggers = append(triggers, st.ID)
				default:
					victims = append(victims, st.ID)
				}
			}
		}
	}
	out.kill = append(victims, triggers...)
	return out
}

func (n *naive) converge() naiveActions {
	out, initialized, failed := n.init()
	if failed {
		return n.killPod()
	}
	if initialized {
		held := n.heldAt(len(n.Pod.Spec.InitContainers))
		stays := false // some regular container runs on, or is to
		for i := range n.Pod.Spec.Containers {
			c := &n.Pod.Spec.Containers[i]
			st := n.latest[c.Name]
			running := st != nil && st.State == runtime.StateRunning
			unknown := st != nil && st.State == runtime.StateUnknown
			changed := running && st.Hash != n.hashes[c.Name]
			bad := running && (n.says(c.LivenessProbe, st, runtime.Probes.Alive) == failure ||
				n.says(c.StartupProbe, st, runtime.Probes.Started) == failure)
			resized := false
			if running && !changed && !bad {
				var steps []naiveResize
				resized, steps = n.fit(c, st)
				out.resize = append(out.resize, steps...)
				if !resized {
					stays = true
					continue
				}
			}
			start := changed || resized || n.again(c)
			stays = stays || start || unknown || bad // how it ends decides
			if start && !held {
				out.start = append(out.start, runtime.Ref{Group: runtime.GroupRegular, Index: i})
			}
			if (running || unknown) && !(start && held) {
				out.kill = append(out.kill, st.ID)
			}
		}
		if !stays {
			return n.killPod()
		}
	}
	for _, st := range n.instances {
		goesBy := n.latest[st.Name]
		if ref, _ := runtime.Find(n.Pod, st.Name); ref.Group == runtime.GroupInit {
			goesBy = n.active[st.Name]
		}
		if (st.State == runtime.StateRunning || st.State == runtime.StateUnknown) && st != goesBy {
			out.kill = append(out.kill, st.ID)
		}
	}
	for i := range n.Pod.Spec.EphemeralContainers {
		if n.latest[n.Pod.Spec.EphemeralContainers[i].Name] == nil {
			out.start = append(out.start, runtime.Ref{Group: runtime.GroupEphemeral, Index: i})
		}
	}
	return out
}

func (n *naive) says(probe *v1.Probe, st *runtime.ContainerStatus, ask func(runtime.Probes, string) (ok, known bool)) verdict {
	if probe == nil || n.Probes == nil || st == nil {
		return success
	}
	return verdictOf(ask(n.Probes, st.ID.String()))
}

// replaces is whether sidecar c, which runs as st, is killed to be started again.
func (n *naive) replaces(c *v1.Container, st *runtime.ContainerStatus) bool {
	switch n.says(c.StartupProbe, st, runtime.Probes.Started) {
	case failure:
		return true
	case noVerdict:
		return false
	}
	resized, _ := n.fit(c, st)
	return resized || st.Hash != n.hashes[c.Name] || n.says(c.LivenessProbe, st, runtime.Probes.Alive) == failure
}

// heldAt reports whether an init or regular container behind i init containers may not start,
// because a sidecar among them is not up.
func (n *naive) heldAt(i int) bool {
	for j := range n.Pod.Spec.InitContainers[:i] {
		c := &n.Pod.Spec.InitContainers[j]
		st := n.active[c.Name]
		up := st != nil && st.State == runtime.StateRunning && !n.replaces(c, st) &&
			n.says(c.StartupProbe, st, runtime.Probes.Started) == success
		if podfacts.IsSidecar(c) && !up {
			return true
		}
	}
	return false
}

// init: the furthest init container with an instance decides. Sidecars before it are kept up, or
// all sidecars after the creation of a regular container.
func (n *naive) init() (out naiveActions, initialized, failed bool) {
	list := n.Pod.Spec.InitContainers
	furthest, regular := -1, false
	for i := range list {
		if n.active[list[i].Name] != nil {
			furthest = i
		}
	}
	for i := range n.Pod.Spec.Containers {
		regular = regular || n.active[n.Pod.Spec.Containers[i].Name] != nil
	}
	if regular {
		furthest = len(list)
	}
	initialized = regular || furthest == len(list)-1
	for i := range list {
		c := &list[i]
		st := n.active[c.Name]
		if st != nil && !podfacts.IsSidecar(c) && i == furthest && !(st.State == runtime.StateExited && !st.Failed()) {
			initialized = false
		}
	}
	for i := range list {
		c := &list[i]
		st := n.active[c.Name]
		run := st != nil && st.State == runtime.StateRunning
		lost := st != nil && st.State == runtime.StateUnknown
		start := false
		switch {
		case i == furthest+1:
			before := i > 0 && !podfacts.IsSidecar(&list[i-1]) && !(n.active[list[i-1].Name].State == runtime.StateExited && !n.active[list[i-1].Name].Failed())
			start = !before
		case i > furthest:
		case podfacts.IsSidecar(c) && run:
			start = n.replaces(c, st)
			if n.says(c.StartupProbe, st, runtime.Probes.Started) == success && st.Hash == n.hashes[c.Name] &&
				n.says(c.LivenessProbe, st, runtime.Probes.Alive) != failure {
				_, steps := n.fit(c, st)
				out.resize = append(out.resize, steps...)
			}
		case podfacts.IsSidecar(c):
			start = true
		case i < furthest:
		case lost && n.mayNotRetry(c):
			out.kill = append(out.kill, st.ID)
		case n.initFailed(c, st):
			return out, false, true
		case run:
			var steps []naiveResize
			start, steps = n.fit(c, st)
			out.resize = append(out.resize, steps...)
		default:
			start = st.State != runtime.StateExited || st.Failed()
		}
		if !start || n.heldAt(i) {
			continue
		}
		out.start = append(out.start, runtime.Ref{Group: runtime.GroupInit, Index: i})
		if run || lost {
			out.kill = append(out.kill, st.ID)
		}
	}
	return out, initialized, false
}
