// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/restartrule"
	"github.com/keelson-dev/keelson/runtime"
)

// reasonRestartAllStarted is the kubelet's reason of AllContainersRestarting. The reasons of the
// other conditions are also the kubelet's; PodReadyToStartContainers has the reasons of
// runtime.SandboxCheck.
const reasonRestartAllStarted = "RestartAllContainersStarted"

// owned are the conditions that Generate decides, in output order.
var owned = []v1.PodConditionType{
	v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled,
	v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress,
}

// conditions returns foreign conditions first, as the API server has them, then the owned
// conditions. DisruptionTarget comes from the previous status, which may be ahead of the API
// server.
func (g *generator) conditions(status *v1.PodStatus) []v1.PodCondition {
	out := make([]v1.PodCondition, 0, max(len(g.previous.Conditions), 5))
	for _, c := range g.Pod.Status.Conditions {
		if !slices.Contains(owned, c.Type) {
			out = append(out, c)
		}
	}
	if d := podfacts.Condition(g.previous.Conditions, v1.DisruptionTarget); d != nil {
		out = slices.DeleteFunc(out, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
		out = append(out, *d)
	}
	ready := podconditions.ContainersReady(&g.Pod.Spec, status)
	foreign := len(out)
	out = append(out, g.readyToStart(), g.initializedCondition(status), podconditions.PodReady(&g.Pod.Spec, ready, out), ready,
		v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	if restarting, ok := g.allRestarting(status.Phase); ok {
		out = append(out, restarting)
	}
	out = append(out, g.resizeConditions(status.Phase)...)
	for i := range out[foreign:] {
		c := &out[foreign+i]
		if c.Type != v1.AllContainersRestarting {
			c.ObservedGeneration = g.Pod.Generation
		}
		c.LastTransitionTime = g.transition(c)
	}
	return out
}

// transition returns the last transition time of c, which is kept while the status does not change.
func (g *generator) transition(c *v1.PodCondition) metav1.Time {
	for _, list := range [][]v1.PodCondition{g.previous.Conditions, g.Pod.Status.Conditions} {
		if before := podfacts.Condition(list, c.Type); before != nil {
			if before.Status == c.Status {
				return before.LastTransitionTime
			}
			break
		}
		if isResize(c.Type) {
			break
		}
	}
	return metav1.NewTime(g.Now)
}

// readyToStart returns the condition PodReadyToStartContainers: whether the pod has its sandbox.
func (g *generator) readyToStart() v1.PodCondition {
	sandbox := runtime.CheckSandbox(g.Pod, g.Observed)
	if sandbox.Changed {
		return podconditions.False(v1.PodReadyToStartContainers, sandbox.Reason, sandbox.Message)
	}
	return v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}
}

// initializedCondition returns the condition Initialized. A regular container that has run proves
// completed init, unless init starts over in a new sandbox. A restart of all containers in place
// keeps the condition true.
func (g *generator) initializedCondition(status *v1.PodStatus) v1.PodCondition {
	return podconditions.Initialized(podconditions.Init{
		Spec: &g.Pod.Spec, Status: status,
		Complete: func(i int, s *v1.ContainerStatus) bool { return g.initComplete(i, &g.Pod.Spec.InitContainers[i], s) },
		Proven:   !g.starting && podconditions.AnyStarted(status.ContainerStatuses),
		Stays:    g.restartingAll(status) && podfacts.IsTrue(g.previous.Conditions, v1.PodInitialized),
	})
}

func (g *generator) initComplete(i int, c *v1.Container, s *v1.ContainerStatus) bool {
	switch {
	case podfacts.IsSidecar(c):
		return s.Started != nil && *s.Started
	case g.starting && !g.initPast(i): // only the current sandbox counts
		active := g.Observed.Active(c.Name)
		return s.Ready && active != nil
	default:
		return s.Ready
	}
}

// restartingAll reports whether all containers are being restarted in place, including the time
// from the last removal until the regular containers run again.
func (g *generator) restartingAll(status *v1.PodStatus) bool {
	return g.triggered || podconditions.RemovedForRestart(status)
}

// allRestarting returns the condition AllContainersRestarting. ok is false for pods without a rule
// that restarts all containers.
func (g *generator) allRestarting(phase v1.PodPhase) (v1.PodCondition, bool) {
	const t = v1.AllContainersRestarting
	switch {
	case !restartrule.MayRestartAll(&g.Pod.Spec):
		return v1.PodCondition{}, false
	case phase == v1.PodSucceeded:
		return podconditions.False(t, podconditions.ReasonPodCompleted, ""), true
	case phase == v1.PodFailed:
		return podconditions.False(t, podconditions.ReasonPodFailed, ""), true
	case g.triggered:
		return v1.PodCondition{Type: t, Status: v1.ConditionTrue, Reason: reasonRestartAllStarted,
			Message: "container exited with restart policy rule"}, true
	default:
		return podconditions.False(t, "", ""), true
	}
}
