// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
)

// stopPods ends every pod at once, each within its own grace period: those that
// are wanted, those that are ending anyway, and those that only the runtime
// knows. It returns when nothing runs any more, or after Options.StopTimeout. Where
// there are classes, it is stopInOrder that does so, and returns in time.
func (a *Agent) stopPods(ctx context.Context) {
	a.log.Info("stopping the pods")
	if len(a.opts.ShutdownClasses) > 0 {
		a.stopInOrder(ctx)
		return
	}
	if a.opts.StopTimeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, a.opts.StopTimeout, errOutOfTime)
		defer cancel()
		ctx = limited
	}
	var wg sync.WaitGroup
	for _, pod := range a.pods.all() {
		if !a.pods.isRejected(pod.UID) {
			wg.Go(func() { a.stopPod(ctx, pod) })
		}
	}
	for uid := range a.workers.All() {
		if _, wanted := a.pods.get(uid); wanted && !a.pods.isRejected(uid) {
			continue
		}
		wg.Go(func() { // it is ending already
			select {
			case <-a.workers.Terminated(uid):
			case <-ctx.Done():
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		a.log.Warn("the time for the end of the pods is over; what still runs runs on")
		return
	}
	// What is left belongs to nobody: the sources never got to say anything.
	left, err := a.runtime.List(ctx, runtime.ListOptions{RunningOnly: true})
	if err != nil {
		a.log.Error("cannot look for pods that still run", zap.Error(err))
		return
	}
	for _, status := range left {
		wg.Go(func() {
			r := a.manager.KillPod(ctx, runtime.KillRequest{UID: status.UID})
			if err := r.Err(); err != nil {
				a.log.Error("could not stop a pod", zap.String("podUID", string(status.UID)), zap.Error(err))
			}
		})
	}
	wg.Wait()
	a.log.Info("all pods are stopped")
	a.giveBack(ctx)
}

// giveBackPatience is how long the end of the agent waits for volumes.
const giveBackPatience = 10 * time.Second

// giveBack waits until the volumes of stopped pods are taken down: a mount that
// is left would be nobody's.
func (a *Agent) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, giveBackPatience)
	defer cancel()
	var wg sync.WaitGroup
	for uid := range a.workers.All() {
		wg.Go(func() {
			if err := a.volumes.WaitForUnmount(ctx, uid); err != nil {
				a.log.Warn("volumes of a stopped pod are left for the next start", zap.String("podUID", string(uid)), zap.Error(err))
			}
		})
	}
	wg.Wait()
}

func (a *Agent) stopPod(ctx context.Context, pod *v1.Pod) {
	if err := a.workers.KillPod(ctx, pod, podworkers.KillOptions{Status: interrupted}); err != nil {
		a.log.Error("could not stop a pod", podField(pod), zap.Error(err))
	}
}

// interrupted keeps a pod that the agent stops from passing for one that has done
// its work, whatever its containers make of the signal. Reason, text and condition
// are those of the kubelet's graceful node shutdown (1.36).
func interrupted(status *v1.PodStatus) {
	const message = "Pod was terminated in response to imminent node shutdown."
	failAs("Terminated", message, &v1.PodCondition{
		Type:    v1.DisruptionTarget,
		Status:  v1.ConditionTrue,
		Reason:  v1.PodReasonTerminationByKubelet,
		Message: message,
	})(status)
}
