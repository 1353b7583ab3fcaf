// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// Errors of a Result, and of RunOnce as a whole.
var (
	ErrPodRejected   = errors.New("the pod was rejected")
	ErrPodFailed     = errors.New("the pod has failed")
	ErrPodNotRunning = errors.New("the pod does not run")
	ErrNoManifests   = errors.New("no pod manifest update")
)

const (
	// sourceTimeout is the longest time until a source's first snapshot. The kubelet waited 1 s.
	sourceTimeout = 30 * time.Second
	// runOnceTimeout is the duration of the kubelet's ten retries.
	runOnceTimeout = 1023 * time.Second
	// runOnceRetries is how often a container may be restarted, and how often syncs of a pod may
	// fail in a row, before RunOnce gives the pod up. It is the kubelet's.
	runOnceRetries = 10
)

// RunOnceOptions are the time limits of RunOnce.
type RunOnceOptions struct {
	// Timeout is the longest time from the first snapshots of all sources until all pods are up or
	// have ended. Defaults to 1023 s.
	Timeout time.Duration
}

// Result is the outcome of a pod in RunOnce.
type Result struct {
	// Pod is the pod with its last status. It is shared and must not be written.
	Pod *v1.Pod
	// Err is nil for a pod that has succeeded or is up; Pod.Status.Phase says which. Otherwise Err
	// wraps ErrPodRejected, ErrPodFailed, ErrPodNotRunning or the cause of ctx's end.
	Err error
}

// RunOnce runs the pods in the first snapshot of every source, and returns when each pod has
// succeeded, failed or is up. A pod with restart policy Always is up when all of its containers run
// and are ready. All other pods have to end. Then RunOnce stops or keeps the pods according to
// Options.OnShutdown. Kept pods run without an agent, so their containers are not restarted.
//
// RunOnce replaces Run. It returns a result for every pod, sorted by namespace and name. The error
// joins the errors of the results and of the agent. There are no results if a source does not
// deliver its first snapshot in time, or if ctx ends before the first snapshots.
//
// RunOnce follows the kubelet's --runonce (up to 1.31). Differences: RunOnce waits for pods that
// have to end, waits for readiness, retries failed syncs, and obeys ctx.
func (a *Agent) RunOnce(ctx context.Context, o RunOnceOptions) ([]Result, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("node: RunOnceOptions.Timeout is %s: want 0 or more", o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, runOnceTimeout)
	if a.state.ran.Load() {
		return nil, errors.New("node: Run was called before")
	}
	once := newOnce(a, o)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = a.Run(running)
	}()
	results, waitErr := once.wait(ctx, ended)
	stop()
	<-ended
	errs := []error{waitErr, err}
	for _, r := range results {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", r.Pod.Namespace, r.Pod.Name, r.Err))
		}
	}
	return results, errors.Join(errs...)
}

// once watches an agent during RunOnce.
type once struct {
	RunOnceOptions
	agent   *Agent
	changed signal.Signal // a pod's status or sync has changed
	spoken  chan string   // the name of each source, after its first snapshot
}

func newOnce(a *Agent, o RunOnceOptions) *once {
	w := &once{RunOnceOptions: o, agent: a, changed: signal.New(), spoken: make(chan string, len(a.opts.Sources))}
	told, synced := a.opts.Status, a.opts.Observer.PodSynced
	a.opts.Status = func(pod *v1.Pod, status v1.PodStatus) {
		if told != nil {
			told(pod, status)
		}
		w.changed.Notify()
	}
	a.opts.Observer.PodSynced = func(e podworkers.SyncEvent) {
		if synced != nil {
			synced(e)
		}
		w.changed.Notify()
	}
	a.opts.Sources = slices.Clone(a.opts.Sources)
	for i, s := range a.opts.Sources {
		a.opts.Sources[i] = onceSource{s, sync.OnceFunc(func() { w.spoken <- s.Name() })}
	}
	return w
}

// onceSource passes on the changes of a source up to its first snapshot.
type onceSource struct {
	podconfig.Source
	spoken func()
}

// WrapSource implements SourceWrapper. A source is not run again: its failure is a result of RunOnce.
func (onceSource) WrapSource(func(podconfig.Source) podconfig.Source) {}

// Run implements podconfig.Source.
func (s onceSource) Run(ctx context.Context, out podconfig.Sink) error {
	return s.Source.Run(ctx, &onceSink{Sink: out, spoken: s.spoken})
}

type onceSink struct {
	podconfig.Sink
	spoken func()
	mu     struct {
		sync.Mutex
		deaf bool
	}
}

// Submit implements podconfig.Sink.
func (s *onceSink) Submit(ctx context.Context, c podconfig.Change) error {
	s.mu.Lock()
	deaf := s.mu.deaf
	s.mu.deaf = deaf || c.Kind() == podconfig.ChangeSnapshot
	s.mu.Unlock()
	if deaf {
		return nil
	}
	err := s.Sink.Submit(ctx, c)
	if err == nil && c.Kind() == podconfig.ChangeSnapshot {
		s.spoken()
	}
	return err
}

// wait returns the results of all pods.
func (w *once) wait(ctx context.Context, ended <-chan struct{}) ([]Result, error) {
	if err := w.awaitSources(ctx, ended); err != nil {
		return nil, err
	}
	pods := w.agent.host.DesiredPods()
	final := make(map[types.UID]Result, len(pods))
	late := time.After(w.Timeout)
	for reason := error(nil); ; {
		if ctx.Err() != nil {
			reason = context.Cause(ctx)
		}
		for _, pod := range pods {
			if _, ok := final[pod.UID]; ok {
				continue
			}
			if r, ok := w.resultOf(pod, reason); ok {
				final[pod.UID] = r
			}
		}
		if len(final) == len(pods) {
			break
		}
		select {
		case <-w.changed:
		case <-late:
			reason = fmt.Errorf("%w after %s", ErrPodNotRunning, w.Timeout)
		case <-ctx.Done():
		case <-ended:
			reason = ErrStopped
		}
	}
	results := make([]Result, 0, len(pods))
	for _, pod := range pods {
		results = append(results, final[pod.UID])
	}
	return results, nil
}

// reasonInterrupted is the status reason of pods stopped at the end of the agent.
const reasonInterrupted = "Terminated"

// resultOf returns the result of a pod, and whether the result is final. With a reason, the error
// that ends the waiting, every result is final.
func (w *once) resultOf(pod *v1.Pod, reason error) (Result, bool) {
	a, shallow := w.agent, *pod
	shallow.Status = a.host.Status(pod)
	r, phase := Result{Pod: &shallow}, shallow.Status.Phase
	switch {
	case phase == v1.PodFailed && !a.host.MayRun(pod.UID):
		r.Err = fmt.Errorf("%w: %s", ErrPodRejected, shallow.Status.Message)
	case podfacts.IsTerminal(phase) && reason == nil && !a.host.Workers.ShouldPodBeFinished(pod.UID):
		return r, false // its volumes are still being unmounted
	case reason != nil && shallow.Status.Reason == reasonInterrupted:
		r.Err = reason
	case phase == v1.PodFailed:
		r.Err = ErrPodFailed
		if shallow.Status.Reason != "" {
			r.Err = fmt.Errorf("%w: %s: %s", ErrPodFailed, shallow.Status.Reason, shallow.Status.Message)
		}
	case phase == v1.PodSucceeded, isUp(&shallow):
	case reason != nil:
		r.Err = w.explain(reason, pod.UID)
	case w.hasUsedUpRetries(&shallow):
		r.Err = w.explain(fmt.Errorf("%w after %d retries", ErrPodNotRunning, runOnceRetries), pod.UID)
	default:
		return r, false
	}
	return r, true
}

// isUp reports whether a pod with restart policy Always runs with all containers ready.
func isUp(pod *v1.Pod) bool {
	forever := pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	return forever && pod.Status.Phase == v1.PodRunning && podfacts.IsTrue(pod.Status.Conditions, v1.ContainersReady)
}

// hasUsedUpRetries reports whether the pod has used up its retries.
func (w *once) hasUsedUpRetries(pod *v1.Pod) bool {
	if info, ok := w.agent.host.Workers.Info(pod.UID); ok && info.Attempt >= runOnceRetries {
		return true
	}
	often := func(c v1.ContainerStatus) bool { return int(c.RestartCount) >= runOnceRetries }
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, often) || slices.ContainsFunc(pod.Status.ContainerStatuses, often)
}

// explain adds the pod's last sync error to err.
func (w *once) explain(err error, uid types.UID) error {
	if info, _ := w.agent.host.Workers.Info(uid); info.LastError != nil {
		return fmt.Errorf("%w: %w", err, info.LastError)
	}
	return err
}

// awaitSources returns when the loop has handled the first snapshot of every source.
func (w *once) awaitSources(ctx context.Context, ended <-chan struct{}) error {
	late := time.After(sourceTimeout)
	for silent := sourceNames(w.agent.opts.Sources); len(silent) > 0; {
		select {
		case name := <-w.spoken:
			silent = slices.DeleteFunc(silent, func(s string) bool { return s == name })
		case <-late:
			return fmt.Errorf("%w after %s from %s", ErrNoManifests, sourceTimeout, strings.Join(silent, ", "))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return ErrStopped
		}
	}
	// The loop receives a ping between two turns, and each turn begins with all pending
	// configuration changes. So after the second ping the loop has handled every change that was
	// pending at the first ping.
	for range 2 {
		select {
		case w.agent.state.pings <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return ErrStopped
		}
	}
	return nil
}
