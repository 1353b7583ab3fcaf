// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
)

// Levels are the free resources of the node.
type Levels struct {
	Readings map[pressure.Signal]pressure.Reading
	Layout   pressure.Layout
}

// Observer measures the node and its pods. The manager's goroutine calls the methods, one at a time,
// and gives each call a few seconds.
type Observer interface {
	// Levels measures the node in each pass. A signal that cannot be measured is missing.
	Levels(ctx context.Context) (Levels, error)
	// Usage measures the pods. Every pod is in the result; Usage.Known is false for a pod that could
	// not be measured. Usage is called if a pod may have to be evicted.
	Usage(ctx context.Context, pods []*v1.Pod) ([]pressure.Usage, error)
}

// Node has the pods to evict. The manager's goroutine calls the methods, one at a time.
type Node interface {
	// Active returns the pods that use the node: all except ended pods. The pods have the resources
	// that the node has granted. They are shared, and are not modified.
	Active() []*v1.Pod
	// Limited returns the pods of Active with limits of local storage.
	Limited() []*v1.Pod
	// Evict begins to end a pod and returns at once. done is closed when no container of the pod
	// runs and its volumes are unmounted. A second call for a pod may shorten the grace period.
	Evict(e pressure.Eviction) (done <-chan struct{})
	// Reclaim frees disk space without ending a pod, as far as possible before ctx ends.
	Reclaim(ctx context.Context, step pressure.Reclaim) error
}

// Hooks report the actions of the manager. Each func may be nil, is called by the manager's
// goroutine, and must not block.
type Hooks struct {
	// Conditions receives the true conditions of the node after a change.
	Conditions func([]v1.NodeConditionType)
	// Starved is called when the node begins to free resources for a threshold, and before each
	// eviction for the threshold.
	Starved func(pressure.Threshold)
	// Evicted is called after each call of Node.Evict, except for a shorter grace period.
	Evicted func(pressure.Eviction)
	// Overdue is called when a pod has not ended within 1.5 times its grace period, and not within
	// ten seconds.
	Overdue func(pressure.Eviction)
}

// Options configure a Manager.
type Options struct {
	// Policy says when pods are evicted. A Policy without thresholds leaves the limits of the pods'
	// own storage.
	Policy pressure.Policy
	// Observer measures. Required.
	Observer Observer
	// Interval is the time between two passes. Defaults to ten seconds, as in the kubelet.
	Interval time.Duration
	// Wake asks for an earlier pass, for example on stalls for memory. The manager makes at most one
	// pass a second. Defaults to nil.
	Wake <-chan struct{}
	// Hooks receive conditions and evictions. Defaults to none.
	Hooks Hooks
	// Logger receives the log. Defaults to none.
	Logger *zap.Logger
}

// Bounds of the manager.
const (
	defaultInterval = 10 * time.Second
	minPause        = time.Second      // between two passes
	measurePatience = 10 * time.Second // for a call of the Observer
	reclaimPatience = time.Minute      // for all reclaim steps of a pass
	minKillPatience = 10 * time.Second // for a pod's containers; 1.5 times the grace period if that is more
	cleanPatience   = 30 * time.Second // for the volumes of an evicted pod, after its containers
)

// Manager evicts pods from a node. Conditions and Refuse may be called by any goroutine.
type Manager struct {
	opts Options
	ran  atomic.Bool

	// The fields below belong to the goroutine of Run, or to the caller of Pass.
	state   pressure.State
	victims []victim
	starved map[pressure.Threshold]bool // in the last pass
	measure failurelog.Log
	reclaim failurelog.Log
	empty   failurelog.Log

	conditions atomic.Pointer[[]v1.NodeConditionType]
}

// New validates opts. The error names the invalid option. New starts no goroutine.
func New(opts Options) (*Manager, error) {
	switch {
	case opts.Observer == nil:
		return nil, errors.New("eviction: Options.Observer is required")
	case opts.Interval < 0:
		return nil, fmt.Errorf("eviction: Options.Interval %s: want 0 or more", opts.Interval)
	case opts.Policy.Hold < 0:
		return nil, fmt.Errorf("eviction: Options.Policy.Hold %s: want 0 or more", opts.Policy.Hold)
	}
	for _, t := range opts.Policy.Thresholds {
		if !slices.Contains(pressure.Signals(), t.Signal) || t.Grace < 0 {
			return nil, fmt.Errorf("eviction: Options.Policy.Thresholds: %s: unknown signal or negative grace period", t)
		}
	}
	opts.Interval = cmp.Or(opts.Interval, defaultInterval)
	opts.Logger = cmp.Or(opts.Logger, zap.NewNop())
	m := &Manager{
		opts:    opts,
		measure: failurelog.Log{Logger: opts.Logger, Failed: "cannot measure the node: no pod is evicted", Recovered: "the node is measured again"},
		reclaim: failurelog.Log{Logger: opts.Logger, Failed: "cannot free disk space"},
		empty:   failurelog.Log{Logger: opts.Logger, Failed: "a resource of the node runs out, and no pod can be evicted"},
	}
	m.conditions.Store(&[]v1.NodeConditionType{})
	return m, nil
}

// Conditions returns the true conditions of the node, in the order of their names. The caller must
// not modify the slice.
func (m *Manager) Conditions() []v1.NodeConditionType { return *m.conditions.Load() }

// Refuse returns the reason and the message of the refusal of a new pod, or "" for a pod that may
// start.
func (m *Manager) Refuse(pod *v1.Pod) (reason, message string) {
	if message = pressure.Refusal(pod, m.Conditions()); message != "" {
		reason = pressure.Reason
	}
	return reason, message
}

// Run makes a pass every Options.Interval, and earlier if a threshold's grace or a condition ends, an
// evicted pod has ended, or Options.Wake receives. Run returns nil when ctx ends. It can be called
// once.
func (m *Manager) Run(ctx context.Context, node Node) error {
	if m.ran.Swap(true) {
		return errors.New("eviction: Run was called before")
	}
	for ctx.Err() == nil {
		began := time.Now()
		pass, err := m.Pass(ctx, node)
		if ctx.Err() == nil {
			m.measure.Report(err)
		}
		m.pause(ctx, began, pass.Next)
	}
	return nil
}

// pause waits for the time of the next pass.
func (m *Manager) pause(ctx context.Context, began, next time.Time) {
	wait := m.opts.Interval
	if !next.IsZero() {
		wait = min(wait, time.Until(next))
	}
	var ended <-chan struct{}
	if i := slices.IndexFunc(m.victims, victim.isAwaited); i >= 0 {
		ended = m.victims[i].done
		wait = min(wait, time.Until(m.victims[i].until))
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(wait):
	case <-ended:
	case <-m.opts.Wake:
	}
	_ = retry.Sleep(ctx, time.Until(began.Add(minPause)))
}
