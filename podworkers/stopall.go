// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/lifecycle"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// StopAll terminates every pod, each within its own grace period, and returns when every pod is
// finished: its containers have ended and SyncTerminatedPod has returned nil. StopAll is for an
// agent that leaves no pod running when it exits. A pod that was not already terminating gets the
// status of Interrupted. StopAll discards the pods of earlier SetPods calls, so that none of them
// starts again.
//
// If ctx ends first, the error wraps its cause and names the unfinished pods. Those pods continue
// to end. If the context of Run ends first, the error wraps ErrStopped.
func (w *Workers) StopAll(ctx context.Context) error {
	for {
		unfinished := w.terminateAll()
		if len(unfinished) == 0 {
			return nil
		}
		for _, pod := range unfinished {
			select {
			case <-pod.finished:
			case <-w.stopped:
				return w.notAllStopped(ErrStopped)
			case <-ctx.Done():
				return w.notAllStopped(context.Cause(ctx))
			}
		}
	}
}

// unfinishedPod is a pod that StopAll waits for.
type unfinishedPod struct {
	name     string
	finished <-chan struct{}
}

// terminateAll terminates every pod that is not ending, and returns all unfinished pods.
func (w *Workers) terminateAll() (unfinished []unfinishedPod) {
	now := time.Now()
	var interrupts []func()
	w.mu.Lock()
	w.mu.desired = nil
	for uid, e := range w.mu.entries {
		if e.phase <= phaseSyncing && w.mu.life != lifecycle.Stopped {
			u := Update{Type: UpdateKill, Pod: e.pod, Kill: &KillOptions{Status: Interrupted}}
			if cause := e.apply(u, now); cause != nil {
				interrupts = append(interrupts, e.interrupter(cause))
			}
			w.react(e)
		}
		if e.phase != phaseFinished {
			unfinished = append(unfinished, unfinishedPod{e.name(uid), e.finishedChannel()})
		}
	}
	w.mu.Unlock()
	for _, interrupt := range interrupts {
		interrupt()
	}
	return unfinished
}

// notAllStopped returns the error of StopAll with the names of the unfinished pods, or nil if all
// pods have finished.
func (w *Workers) notAllStopped(cause error) error {
	var names []string
	for _, pod := range w.terminateAll() {
		names = append(names, pod.name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("podworkers: stop all pods: %s did not end: %w", strings.Join(names, ", "), cause)
}

// name returns the name of the pod for messages.
func (r *record) name(uid types.UID) string {
	switch {
	case r.pod != nil:
		return r.pod.Namespace + "/" + r.pod.Name
	case r.orphan.Name != "":
		return r.orphan.Namespace + "/" + r.orphan.Name
	}
	return string(uid)
}

// Interrupted sets phase Failed, reason Terminated and the condition DisruptionTarget, so a pod
// stopped together with its agent is not mistaken for a completed pod. A status that is already
// Succeeded, or Failed for another reason, stays unchanged. Interrupted can be used as
// KillOptions.Status. Reason, message and condition are as in the kubelet's graceful node shutdown
// (1.36).
func Interrupted(status *v1.PodStatus) {
	const reason, message = "Terminated", "Pod was terminated in response to imminent node shutdown."
	if podfacts.IsTerminal(status.Phase) && status.Reason != reason {
		return
	}
	status.Phase, status.Reason, status.Message = v1.PodFailed, reason, message
	disrupted := func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue }
	if slices.ContainsFunc(status.Conditions, disrupted) {
		return
	}
	status.Conditions = append(status.Conditions, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: message,
	})
}
