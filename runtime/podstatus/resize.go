// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// ResizePending is why a resize that was asked for is not begun.
type ResizePending struct {
	// Reason is v1.PodReasonDeferred if the node may be able to do it later,
	// v1.PodReasonInfeasible if it never will.
	Reason  string
	Message string // for people
}

// resizeConditions are there only while they are true, and only of a pod whose
// containers are kept running. Both can be: one resize is under way and the next
// is asked for.
func (g *generator) resizeConditions(phase v1.PodPhase) (out []v1.PodCondition) {
	if !g.mayStart() || isTerminal(phase) {
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

// isResize reports whether t is a condition that comes and goes: what the API
// server still has of one that has gone says nothing about the next.
func isResize(t v1.PodConditionType) bool {
	return t == v1.PodResizePending || t == v1.PodResizeInProgress
}

// The least cpu that a kernel can be told, in thousandths. A container that is
// given less reads back as this much, which must not look like a resize.
const (
	leastCPULimit   = 10 // of a CFS quota
	leastCPURequest = 2  // two shares
)

// setResources reports what the spec gives the container: that is allocated. If
// it runs, what it was last given and, before that, what the runtime says it has
// are reported as its own.
func (g *generator) setResources(spec *v1.Container, in *runtime.ContainerStatus, status *v1.ContainerStatus) {
	given := &spec.Resources
	if len(given.Requests) == 0 && len(given.Limits) == 0 {
		return
	}
	status.AllocatedResources = given.Requests.DeepCopy()
	status.Resources = given.DeepCopy()
	if in.State != runtime.StateRunning {
		return
	}
	if g.Actuated != nil {
		if last, ok := g.Actuated(in.ID); ok {
			overlay(status.Resources.Limits, last.Limits, 0)
			overlay(status.Resources.Requests, last.Requests, 0)
		}
	}
	if in.Resources != nil {
		overlay(status.Resources.Limits, in.Resources.Limits, leastCPULimit)
		overlay(status.Resources.Requests, in.Resources.Requests, leastCPURequest)
	}
}

// overlay replaces the cpu and memory that to has by those of from.
func overlay(to, from v1.ResourceList, leastCPU int64) {
	for _, name := range computeResources {
		_, had := to[name]
		actual, has := from[name]
		if !had || !has || name == v1.ResourceCPU && actual.MilliValue() <= leastCPU {
			continue
		}
		to[name] = actual.DeepCopy()
	}
}
