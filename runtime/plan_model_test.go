// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// model is a node on which every action succeeds at once, and nothing happens without an action.
type model struct {
	pod    *v1.Pod
	status *runtime.PodStatus // the model's own
	made   int                // containers so far
	ledger ledger
}

// apply carries out a plan in the order that Actions documents.
func (m *model) apply(a runtime.Actions) {
	if a.KillPod {
		for i := range m.status.Containers {
			m.stop(&m.status.Containers[i])
		}
		for i := range m.status.Sandboxes {
			m.status.Sandboxes[i].Ready = false
		}
	}
	if a.CreateSandbox {
		m.status.Containers = slices.DeleteFunc(m.status.Containers, func(c runtime.ContainerStatus) bool {
			ref, ok := runtime.Find(m.pod, c.Name)
			return ok && ref.Group == runtime.GroupInit
		})
		m.status.Sandboxes = slices.Insert(m.status.Sandboxes, 0, runtime.SandboxStatus{
			ID:      runtime.SandboxID("new-" + strconv.Itoa(len(m.status.Sandboxes))),
			Attempt: a.Attempt, Ready: true, HostNetwork: m.pod.Spec.HostNetwork,
			NetworkKnown: true, IPs: []string{"10.0.0.1"},
		})
	}
	for _, k := range a.Kill {
		m.kill(k)
	}
	for _, s := range a.Start {
		c := s.Ref.Container(m.pod)
		m.made++
		m.status.Containers = slices.Insert(m.status.Containers, 0, runtime.ContainerStatus{
			ID:   runtime.ContainerID{Runtime: "new", ID: strconv.Itoa(m.made)},
			Name: c.Name, Sandbox: m.status.Sandboxes[0].ID, State: runtime.StateRunning, Hash: containermeta.Hash(c),
		})
		if m.ledger != nil {
			m.ledger[m.status.Containers[0].ID] = given{resources: naiveWants(m.pod, c)}
		}
	}
	for _, r := range a.Resize {
		m.ledger[r.ID] = given{resources: r.To}
	}
}

func (m *model) kill(k runtime.Kill) {
	i := slices.IndexFunc(m.status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == k.ID })
	m.stop(&m.status.Containers[i])
	if k.Remove {
		m.status.Containers = slices.Delete(m.status.Containers, i, i+1)
	}
}

func (m *model) stop(c *runtime.ContainerStatus) {
	if c.State == runtime.StateRunning || c.State == runtime.StateUnknown {
		c.State, c.ExitCode, c.Reason = runtime.StateExited, 137, runtime.ReasonError
	}
}

// pass lets all running plain init containers complete, and reports whether there was any. An init
// container whose completion restarts the whole pod runs on, because otherwise the pod would never
// settle.
func (m *model) pass() (changed bool) {
	for i := range m.pod.Spec.InitContainers {
		c := &m.pod.Spec.InitContainers[i]
		st := m.status.Active(c.Name)
		if podfacts.IsSidecar(c) || st == nil || st.State != runtime.StateRunning {
			continue
		}
		st.State, st.Reason = runtime.StateExited, runtime.ReasonCompleted
		if runtime.RestartAllTriggered(m.pod, m.status) {
			st.State, st.Reason = runtime.StateRunning, ""
			continue
		}
		changed = true
	}
	return changed
}

// initialized is the definition: every init container but the sidecars has
// completed in the current sandbox and the sidecars have been started. Since
// init goes in order, the last one says it all; and once a regular container
// was made it has been true.
func (m *model) initialized(probes runtime.Probes) bool {
	list := m.pod.Spec.InitContainers
	for i := range m.pod.Spec.Containers {
		if m.status.Active(m.pod.Spec.Containers[i].Name) != nil {
			return true
		}
	}
	if len(list) == 0 {
		return true
	}
	last := &list[len(list)-1]
	st := m.status.Active(last.Name)
	switch {
	case st == nil:
		// The record of the last sidecar may be missing. Init is then not known to be complete.
		return false
	case podfacts.IsSidecar(last):
		return st.State == runtime.StateRunning &&
			(last.StartupProbe == nil || verdictOf(probes.Started(st.ID.String())) == success)
	default:
		return st.State == runtime.StateExited && !st.Failed()
	}
}

// over reports whether nothing of the pod runs and no sandbox is left.
func (m *model) over() bool {
	return len(m.status.Running()) == 0 &&
		!slices.ContainsFunc(m.status.Sandboxes, func(s runtime.SandboxStatus) bool { return s.Ready })
}
