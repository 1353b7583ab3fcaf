// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
)

// ResizePending is the reason why a requested resize has not begun.
type ResizePending struct {
	// Reason is v1.PodReasonDeferred if the node may accept the resize later,
	// v1.PodReasonInfeasible if the node can never accept the resize.
	Reason  string
	Message string // for people
}

// resizeConditions returns the resize conditions, each only while true, of a pod whose containers
// are kept running. Both are true while a resize is under way and the next resize is pending.
func (g *generator) resizeConditions(phase v1.PodPhase) (out []v1.PodCondition) {
	if !g.mayStart() || podfacts.IsTerminal(phase) {
		return nil
	}
	if p := g.ResizePending; p != nil {
		out = append(out, v1.PodCondition{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: p.Reason, Message: p.Message,
		})
	}
	if r := g.Resizing; r.UnderWay {
		c := v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}
		if r.Error != "" {
			c.Reason, c.Message = v1.PodReasonError, r.Error
		}
		out = append(out, c)
	}
	return out
}

// isResize reports whether t is a resize condition. Resize conditions are removed when false, so
// that a stale resize condition from the API server gives no transition time.
func isResize(t v1.PodConditionType) bool {
	return t == v1.PodResizePending || t == v1.PodResizeInProgress
}

// setResources reports the resources in the spec as allocated. For a running container, Resources
// has the resources last applied, overlaid by the resources that the runtime reports. The status shares
// unchanged lists with the spec.
func (g *generator) setResources(spec *v1.Container, in *runtime.ContainerStatus, status *v1.ContainerStatus) {
	given := &spec.Resources
	if len(given.Requests) == 0 && len(given.Limits) == 0 {
		return
	}
	shown := *given
	status.AllocatedResources, status.Resources = given.Requests, &shown
	if in.State != runtime.StateRunning {
		return
	}
	if g.Actuated != nil {
		if last, ok := g.Actuated(in.ID); ok {
			overlay(&shown.Limits, last.Limits, 0)
			overlay(&shown.Requests, last.Requests, 0)
		}
	}
	if in.Resources != nil {
		overlay(&shown.Limits, in.Resources.Limits, podresources.LeastCPULimit)
		overlay(&shown.Requests, in.Resources.Requests, podresources.LeastCPURequest)
	}
}

// overlay replaces the cpu and memory values in to by the other values in from that are greater than
// least, in thousandths: a smaller value than the kernel accepts must not look like a resize. That leaves out a memory of 0 bytes, which is no value, and no other memory.
// The list in to is the pod's and is replaced, not written.
func overlay(to *v1.ResourceList, from v1.ResourceList, least int64) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		old, had := (*to)[name]
		if actual := from[name]; had && actual.MilliValue() > least && actual.Cmp(old) != 0 {
			*to = maps.Clone(*to)
			(*to)[name] = actual
		}
	}
}
