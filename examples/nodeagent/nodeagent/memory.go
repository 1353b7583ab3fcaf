// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

// memory keeps what the next agent on this node cannot learn from the runtime:
// which containers of static pods were ready. Without it a restart of the agent
// takes every probed static pod out of service until its first probe
// (kubernetes#133579); of other pods the API server or the checkpoint knows.
type memory struct {
	agent  *Agent
	keeper *checkpoint.Writer

	mu struct {
		sync.Mutex
		former map[types.UID]*v1.PodStatus // never written; what the agent before this one knew
	}
}

// memorySource is the source that the pods of the memory's file are of: none, for
// they are no pods to be run.
const memorySource = "statuses"

// memoryDelay is for how long changes are gathered: a crash in between costs some
// pod its readiness for a moment.
const memoryDelay = 2 * time.Second

// openMemory reads what the agent before this one left. A file that cannot be
// used is said, and done without.
func (a *Agent) openMemory() (*memory, error) {
	path := filepath.Join(a.opts.Root, "statuses", "checkpoint")
	m := &memory{agent: a}
	m.mu.former = make(map[types.UID]*v1.PodStatus)
	kept, err := checkpoint.Read(path, 0)
	if err != nil {
		a.log.Warn("static pods with a probe are not ready before it has passed", zap.Error(err))
	}
	for _, pod := range kept[memorySource] {
		m.mu.former[pod.UID] = &pod.Status
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	m.keeper, err = checkpoint.New(checkpoint.Options{Path: path, Pods: m, Delay: memoryDelay, Logger: a.log})
	return m, err
}

// run keeps the file up to date until ctx ends, and once more then.
func (m *memory) run(ctx context.Context) error { return m.keeper.Run(ctx) }

// note hears that a status has changed.
func (m *memory) note(pod *v1.Pod) {
	if podconfig.IsStatic(pod) {
		m.keeper.Note(podconfig.Update{Source: memorySource, Op: podconfig.OpAdd})
	}
}

// recall returns the pod with what is remembered of it, if it is a static one.
// That is of container instances: of others than those that run it says nothing.
func (m *memory) recall(pod *v1.Pod) *v1.Pod {
	m.mu.Lock()
	former := m.mu.former[pod.UID]
	m.mu.Unlock()
	if former == nil || !podconfig.IsStatic(pod) || len(pod.Status.ContainerStatuses) > 0 {
		return pod
	}
	shallow := *pod
	shallow.Status = *former
	return &shallow
}

// keep forgets pods that nobody wants any more.
func (m *memory) keep(known func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.mu.former, func(uid types.UID, _ *v1.PodStatus) bool { return !known(uid) })
}

// Pods implements checkpoint.Holder: the static pods that are not over, with no
// more than is to be remembered of them, and those that have not come back yet.
func (m *memory) Pods() iter.Seq2[string, *v1.Pod] {
	m.mu.Lock()
	known := maps.Clone(m.mu.former)
	m.mu.Unlock()
	for _, pod := range m.agent.statuses.all() {
		switch {
		case isOver(pod.Status.Phase):
			delete(known, pod.UID)
		case podconfig.IsStatic(pod) && pod.Status.StartTime != nil:
			known[pod.UID] = worthKeeping(&pod.Status)
		}
	}
	return func(yield func(string, *v1.Pod) bool) {
		for _, uid := range slices.Sorted(maps.Keys(known)) {
			pod := &v1.Pod{Status: *known[uid]}
			pod.UID, pod.Name, pod.Namespace = uid, string(uid), v1.NamespaceDefault
			if !yield(memorySource, pod) {
				return
			}
		}
	}
}

// worthKeeping is what of a status only the agent knows: what probes have found
// out about the instances that run.
func worthKeeping(s *v1.PodStatus) *v1.PodStatus {
	return &v1.PodStatus{InitContainerStatuses: verdicts(s.InitContainerStatuses), ContainerStatuses: verdicts(s.ContainerStatuses)}
}

func verdicts(all []v1.ContainerStatus) (kept []v1.ContainerStatus) {
	for i := range all {
		if c := &all[i]; c.State.Running != nil {
			kept = append(kept, v1.ContainerStatus{Name: c.Name, ContainerID: c.ContainerID, Ready: c.Ready, Started: c.Started})
		}
	}
	return kept
}
