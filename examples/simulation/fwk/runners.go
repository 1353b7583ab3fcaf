// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"
)

// RunFilterPlugins implements framework.Handle. The status has the name of the plug-in.
func (h *handle) RunFilterPlugins(ctx context.Context, state framework.CycleState, pod *v1.Pod, info framework.NodeInfo) *framework.Status {
	for _, p := range h.s.plugins {
		if p.filter == nil || state.GetSkipFilterPlugins().Has(p.Name()) {
			continue
		}
		if status := p.filter.Filter(ctx, state, pod, info); !status.IsSuccess() {
			return status.WithPlugin(p.Name())
		}
	}
	return nil
}

// RunFilterPluginsWithNominatedPods implements framework.Handle: with the nominated pods of at least
// the pod's priority, and without them.
func (h *handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state framework.CycleState, pod *v1.Pod, info framework.NodeInfo) *framework.Status {
	guests := slices.DeleteFunc(h.NominatedPodsForNode(info.Node().Name), func(p framework.PodInfo) bool {
		return p.GetPod().UID == pod.UID || corev1.PodPriority(p.GetPod()) < corev1.PodPriority(pod)
	})
	if len(guests) > 0 {
		with, crowded := state.Clone(), info.Snapshot()
		for _, guest := range guests {
			crowded.AddPodInfo(guest)
			if status := h.RunPreFilterExtensionAddPod(ctx, with, pod, guest, crowded); !status.IsSuccess() {
				return status
			}
		}
		if status := h.RunFilterPlugins(ctx, with, pod, crowded); !status.IsSuccess() {
			return status
		}
	}
	return h.RunFilterPlugins(ctx, state, pod, info)
}

// RunPreFilterExtensionAddPod implements framework.Handle.
func (h *handle) RunPreFilterExtensionAddPod(ctx context.Context, state framework.CycleState, pod *v1.Pod, added framework.PodInfo, info framework.NodeInfo) *framework.Status {
	return h.extensions(state, func(e framework.PreFilterExtensions) *framework.Status { return e.AddPod(ctx, state, pod, added, info) })
}

// RunPreFilterExtensionRemovePod implements framework.Handle.
func (h *handle) RunPreFilterExtensionRemovePod(ctx context.Context, state framework.CycleState, pod *v1.Pod, removed framework.PodInfo, info framework.NodeInfo) *framework.Status {
	return h.extensions(state, func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, state, pod, removed, info)
	})
}

// extensions calls the extensions of the plug-ins that are not skipped.
func (h *handle) extensions(state framework.CycleState, call func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	for _, p := range h.s.plugins {
		if p.preFilter == nil || p.preFilter.PreFilterExtensions() == nil || state.GetSkipFilterPlugins().Has(p.Name()) {
			continue
		}
		if status := call(p.preFilter.PreFilterExtensions()); !status.IsSuccess() {
			return framework.NewStatus(framework.Error, fmt.Sprintf("PreFilterExtensions of %s: %s", p.Name(), status.Message()))
		}
	}
	return nil
}

// RunPreScorePlugins implements framework.Handle.
func (h *handle) RunPreScorePlugins(_ context.Context, state framework.CycleState, pod *v1.Pod, nodes []framework.NodeInfo) *framework.Status {
	return h.s.preScore(state, &cycle{pod: pod, feasible: nodes})
}

// RunScorePlugins implements framework.Handle.
func (h *handle) RunScorePlugins(ctx context.Context, state framework.CycleState, pod *v1.Pod, nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	out := make([]framework.NodePluginScores, len(nodes))
	for i, n := range nodes {
		out[i].Name = n.Node().Name
	}
	for _, p := range h.s.plugins {
		if p.score == nil || state.GetSkipScorePlugins().Has(p.Name()) {
			continue
		}
		list := make(framework.NodeScoreList, len(nodes))
		for i, n := range nodes {
			value, status := p.score.Score(ctx, state, pod, n)
			if !status.IsSuccess() {
				return nil, framework.NewStatus(framework.Error, fmt.Sprintf("Score of %s: %s", p.Name(), status.Message()))
			}
			list[i] = framework.NodeScore{Name: n.Node().Name, Score: value}
			out[i].RawScores = append(out[i].RawScores, framework.PluginScore{Name: p.Name(), Score: value})
		}
		if e := p.score.ScoreExtensions(); e != nil {
			if status := e.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
				return nil, framework.NewStatus(framework.Error, fmt.Sprintf("NormalizeScore of %s: %s", p.Name(), status.Message()))
			}
		}
		for i := range list {
			if s := list[i].Score; s < framework.MinScore || s > framework.MaxScore {
				return nil, framework.NewStatus(framework.Error, fmt.Sprintf("%s: the score %d of node %s is not between 0 and 100", p.Name(), s, list[i].Name))
			}
			weighted := list[i].Score * p.weight
			out[i].Scores = append(out[i].Scores, framework.PluginScore{Name: p.Name(), Score: weighted})
			out[i].TotalScore += weighted
		}
	}
	return out, nil
}

// RunReservePluginsReserve implements framework.Handle.
func (h *handle) RunReservePluginsReserve(ctx context.Context, state framework.CycleState, pod *v1.Pod, node string) *framework.Status {
	for _, p := range h.s.plugins {
		if p.reserve == nil {
			continue
		}
		if status := p.reserve.Reserve(ctx, state, pod, node); !status.IsSuccess() {
			return status.WithPlugin(p.Name())
		}
	}
	return nil
}

// RunReservePluginsUnreserve implements framework.Handle.
func (h *handle) RunReservePluginsUnreserve(ctx context.Context, state framework.CycleState, pod *v1.Pod, node string) {
	for _, p := range slices.Backward(h.s.plugins) {
		if p.reserve != nil {
			p.reserve.Unreserve(ctx, state, pod, node)
		}
	}
}
