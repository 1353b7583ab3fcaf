// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// pendingPods has the plug-ins that a pod waits for.
type pendingPods map[*sim.Pod]map[string]bool

func (w pendingPods) add(p *sim.Pod, plugin string) {
	if w[p] == nil {
		w[p] = map[string]bool{}
	}
	w[p][plugin] = true
}

// prune forgets the pods that do not wait any more. The pod of the present cycle stays.
func (w pendingPods) prune(waiting []*sim.Pod, present *sim.Pod) {
	maps.DeleteFunc(w, func(p *sim.Pod, _ map[string]bool) bool { return p != present && !slices.Contains(waiting, p) })
}

// waitingPod implements framework.WaitingPod.
type waitingPod struct {
	s   *Scheduler
	pod *sim.Pod
}

func (w *waitingPod) GetPod() *v1.Pod { return podOf(w.pod, w.pod.Node.Name) }

// GetPendingPlugins implements framework.WaitingPod.
func (w *waitingPod) GetPendingPlugins() []string {
	return slices.Sorted(maps.Keys(w.s.pending[w.pod]))
}

// Allow implements framework.WaitingPod.
func (w *waitingPod) Allow(plugin string) {
	delete(w.s.pending[w.pod], plugin)
	if len(w.s.pending[w.pod]) == 0 {
		w.s.current.Allow(w.pod)
	}
}

// Reject implements framework.WaitingPod.
func (w *waitingPod) Reject(string, string) bool {
	w.s.current.Reject(w.pod)
	return true
}

// Preempt implements framework.WaitingPod. The pod is tried again after a back-off.
func (w *waitingPod) Preempt(plugin, msg string) bool { return w.Reject(plugin, msg) }

// waiting returns the pods that wait for Permit. Outside of a call there is none.
func (s *Scheduler) waiting() (pods []*waitingPod) {
	if s.current == nil {
		return nil
	}
	for _, p := range s.current.Waiting() {
		pods = append(pods, &waitingPod{s, p})
	}
	return pods
}

// IterateOverWaitingPods implements framework.Handle.
func (h *handle) IterateOverWaitingPods(f func(framework.WaitingPod)) {
	for _, w := range h.s.waiting() {
		f(w)
	}
}

// GetWaitingPod implements framework.Handle.
func (h *handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	for _, w := range h.s.waiting() {
		if uidOf(w.pod) == uid {
			return w
		}
	}
	return nil
}

// RejectWaitingPod implements framework.Handle.
func (h *handle) RejectWaitingPod(uid types.UID) bool {
	w := h.GetWaitingPod(uid)
	return w != nil && w.Reject("", "")
}
