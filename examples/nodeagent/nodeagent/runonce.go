// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
)

// What is wrong with a Result, or with a RunOnce as a whole.
var (
	ErrPodRejected   = errors.New("the pod was rejected")
	ErrPodFailed     = errors.New("the pod has failed")
	ErrPodNotRunning = errors.New("the pod does not run")
	ErrNoManifests   = errors.New("no pod manifest update")
)

// RunOnceOptions are the limits of RunOnce.
type RunOnceOptions struct {
	// SourceTimeout is how long each source has to say which pods there are.
	// Defaults to 30 s; the kubelet waited 1 s.
	SourceTimeout time.Duration
	// Timeout is how long the pods have to come up after that. Defaults to 1023 s,
	// which is what the kubelet's ten retries took.
	Timeout time.Duration
	// Retries is how often a container may be started again, and how often what a
	// pod needs may fail in a row, before the pod is given up. Defaults to 10.
	Retries int
}

// Result is what became of a pod in RunOnce.
type Result struct {
	// Pod is the pod with its last status. It is shared and not to be written.
	Pod *v1.Pod
	// Err is nil of a pod that has succeeded or runs, as its phase says. Otherwise
	// it wraps ErrPodRejected, ErrPodFailed, ErrPodNotRunning or the cause of ctx's
	// end.
	Err error
}

// RunOnce runs the pods that the sources name first, and ends when each has
// succeeded, or failed, or is up. A pod that is restarted always is up when all of
// its containers run and are ready; one that is not is awaited until it ends. Then
// the agent ends as Options.OnShutdown says, and what KeepPods leaves goes on
// without an agent: nobody restarts it.
//
// It takes the place of Run. The results are of all pods, by namespace and name,
// also if there is an error, which joins theirs and those of the agent.
//
// This is the kubelet's --runonce (up to 1.31), but for: pods that are to end are
// awaited, readiness counts, a failed sync is tried again, ctx ends it all.
func (a *Agent) RunOnce(ctx context.Context, o RunOnceOptions) ([]Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if a.ran.Load() {
		return nil, errors.New("nodeagent: Run was called before")
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

func (o *RunOnceOptions) complete() error {
	if o.SourceTimeout < 0 || o.Timeout < 0 || o.Retries < 0 {
		return errors.New("nodeagent: RunOnceOptions: want 0 or more of SourceTimeout, Timeout and Retries")
	}
	if o.SourceTimeout == 0 {
		o.SourceTimeout = 30 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 1023 * time.Second
	}
	if o.Retries == 0 {
		o.Retries = 10
	}
	return nil
}

// once watches an agent that runs its pods once.
type once struct {
	RunOnceOptions
	agent   *Agent
	changed chan struct{} // capacity 1: something about a pod is new
	spoken  chan string   // a source's name, once each
}

func newOnce(a *Agent, o RunOnceOptions) *once {
	w := &once{RunOnceOptions: o, agent: a, changed: make(chan struct{}, 1), spoken: make(chan string, len(a.opts.Sources))}
	told, synced := a.statuses.told, a.opts.Observer.PodSynced
	a.statuses.told = func(pod *v1.Pod, status v1.PodStatus) {
		if told != nil {
			told(pod, status)
		}
		w.poke()
	}
	a.opts.Observer.PodSynced = func(e podworkers.SyncEvent) {
		if synced != nil {
			synced(e)
		}
		w.poke()
	}
	a.opts.Sources = slices.Clone(a.opts.Sources)
	for i, s := range a.opts.Sources {
		a.opts.Sources[i] = onceSource{s, sync.OnceFunc(func() { w.spoken <- s.Name() })}
	}
	return w
}

func (w *once) poke() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// onceSource is heard up to its first snapshot.
type onceSource struct {
	podconfig.Source
	spoken func()
}

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

// wait returns what became of every pod.
func (w *once) wait(ctx context.Context, ended <-chan struct{}) ([]Result, error) {
	if err := w.awaitSources(ctx, ended); err != nil {
		return nil, err
	}
	pods := w.agent.pods.all()
	final := make(map[types.UID]Result, len(pods))
	late := time.NewTimer(w.Timeout)
	defer late.Stop()
	for reason := error(nil); ; {
		if ctx.Err() != nil {
			reason = context.Cause(ctx)
		}
		for _, pod := range pods {
			if _, ok := final[pod.UID]; ok {
				continue
			}
			if r, ok := w.look(pod, reason); ok {
				final[pod.UID] = r
			}
		}
		if len(final) == len(pods) {
			break
		}
		select {
		case <-w.changed:
		case <-late.C:
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

// reasonInterrupted is why a pod has failed that the agent stopped at its own end.
const reasonInterrupted = "Terminated"

// look tells what has become of a pod, if that is final. A reason makes it final:
// it is why nobody waits any more.
func (w *once) look(pod *v1.Pod, reason error) (Result, bool) {
	a, shallow := w.agent, *pod
	shallow.Status = a.statuses.get(pod)
	r, phase := Result{Pod: &shallow}, shallow.Status.Phase
	switch {
	case phase == v1.PodFailed && a.pods.isRejected(pod.UID):
		r.Err = fmt.Errorf("%w: %s", ErrPodRejected, shallow.Status.Message)
	case isOver(phase) && reason == nil && !a.workers.ShouldPodBeFinished(pod.UID):
		return r, false // what it held is being given back
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
	case w.inVain(&shallow):
		r.Err = w.explain(fmt.Errorf("%w after %d retries", ErrPodNotRunning, w.Retries), pod.UID)
	default:
		return r, false
	}
	return r, true
}

// isUp reports whether a pod that is never to end is as it should be.
func isUp(pod *v1.Pod) bool {
	forever := pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == ""
	return forever && pod.Status.Phase == v1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.ContainersReady && c.Status == v1.ConditionTrue
	})
}

// inVain reports whether enough has been tried for a pod.
func (w *once) inVain(pod *v1.Pod) bool {
	if info, ok := w.agent.workers.Info(pod.UID); ok && info.Attempt >= w.Retries {
		return true
	}
	often := func(c v1.ContainerStatus) bool { return int(c.RestartCount) >= w.Retries }
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, often) || slices.ContainsFunc(pod.Status.ContainerStatuses, often)
}

// explain adds what failed last.
func (w *once) explain(err error, uid types.UID) error {
	if text := w.agent.failures.last(uid); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// awaitSources returns when the agent has taken in what every source said first.
func (w *once) awaitSources(ctx context.Context, ended <-chan struct{}) error {
	late := time.NewTimer(w.SourceTimeout)
	defer late.Stop()
	for silent := w.agent.sourceNames(); len(silent) > 0; {
		select {
		case name := <-w.spoken:
			silent = slices.DeleteFunc(silent, func(s string) bool { return s == name })
		case <-late.C:
			return fmt.Errorf("%w after %s from %s", ErrNoManifests, w.SourceTimeout, strings.Join(silent, ", "))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return ErrStopped
		}
	}
	// The loop takes a ping between two turns, and each turn begins with all the
	// configuration there is: at the second ping what was there at the first is in.
	for range 2 {
		select {
		case w.agent.pings <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return ErrStopped
		}
	}
	return nil
}

func (a *Agent) sourceNames() []string {
	names := make([]string, 0, len(a.opts.Sources))
	for _, s := range a.opts.Sources {
		names = append(names, s.Name())
	}
	return names
}
