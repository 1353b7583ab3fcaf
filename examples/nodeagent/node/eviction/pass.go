// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

// Pass is one step of Run. It measures the node, publishes the conditions, and evicts the pods that
// exceed their own limits of local storage. If there is no such pod and a threshold is starved,
// Pass frees space and evicts one pod. Pass never waits for the end of a pod. After a failed
// measurement, Pass returns the error, leaves the conditions and evicts no pod.
func (m *Manager) Pass(ctx context.Context, node Node) (pressure.Pass, error) {
	levels, err := m.levels(ctx)
	if err != nil {
		return pressure.Pass{}, err
	}
	var pass pressure.Pass
	m.state, pass = m.opts.Policy.Judge(m.state, levels.Readings, time.Now())
	m.publish(pass.Conditions)
	m.forgetEnded(time.Now())
	begun := m.begun(pass.Starved)
	evicted, err := m.enforceLimits(ctx, node)
	if evicted || len(pass.Starved) == 0 {
		return pass, err
	}
	return pass, errors.Join(err, m.relieve(ctx, node, pass.Starved[0], levels, begun))
}

// publish sets the conditions, and reports a change.
func (m *Manager) publish(conditions []v1.NodeConditionType) {
	if slices.Equal(conditions, m.Conditions()) {
		return
	}
	m.conditions.Store(&conditions)
	m.opts.Logger.Info("the node's pressure has changed", zap.String("conditions", fmt.Sprint(conditions)))
	if told := m.opts.Hooks.Conditions; told != nil {
		told(conditions)
	}
}

// begun reports whether the first of the starved thresholds was not starved in the last pass.
func (m *Manager) begun(starved []pressure.Threshold) bool {
	before := m.starved
	m.starved = make(map[pressure.Threshold]bool, len(starved))
	for _, t := range starved {
		m.starved[t] = true
	}
	return len(starved) > 0 && !before[starved[0]]
}

// levels measures the node. Without thresholds there is nothing to measure.
func (m *Manager) levels(ctx context.Context) (Levels, error) {
	if len(m.opts.Policy.Thresholds) == 0 {
		return Levels{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, measurePatience)
	defer cancel()
	return m.opts.Observer.Levels(ctx)
}

// usage measures the pods that are not ending.
func (m *Manager) usage(ctx context.Context, pods []*v1.Pod) ([]pressure.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, measurePatience)
	defer cancel()
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		return slices.ContainsFunc(m.victims, func(v victim) bool { return v.eviction.Pod.UID == pod.UID })
	})
	return m.opts.Observer.Usage(ctx, pods)
}

// enforceLimits evicts the pods that exceed their limits of local storage. If no pod has such a
// limit, the pods are not measured.
func (m *Manager) enforceLimits(ctx context.Context, node Node) (evicted bool, err error) {
	limited := node.Limited()
	if len(limited) == 0 {
		return false, nil
	}
	usages, err := m.usage(ctx, limited)
	if err != nil {
		return false, err
	}
	for _, e := range pressure.OverLimit(usages) {
		m.evict(node, e, true)
		evicted = true
	}
	return evicted, nil
}

// relieve frees space for a threshold, or evicts a pod. While an earlier victim ends, relieve waits
// for later passes, but a hard threshold shortens the grace period of the victim.
func (m *Manager) relieve(ctx context.Context, node Node, t pressure.Threshold, levels Levels, begun bool) error {
	if m.awaits(node, t) {
		return nil
	}
	starved := func() {
		if told := m.opts.Hooks.Starved; told != nil {
			told(t)
		}
	}
	if begun {
		starved()
	}
	if steps := levels.Layout.Reclaims(t.Signal); len(steps) > 0 {
		m.reclaim.Report(m.free(ctx, node, steps))
		var err error
		if levels, err = m.levels(ctx); err != nil || t.IsRelieved(levels.Readings) {
			return err
		}
		if _, known := levels.Readings[t.Signal]; !known {
			return nil // a later pass decides
		}
	}
	usages, err := m.usage(ctx, node.Active())
	if err != nil {
		return err
	}
	ranked := pressure.Rank(t.Signal, levels.Layout, usages)
	e, found := m.opts.Policy.Victim(t, levels.Layout, ranked, levels.Readings[t.Signal])
	if !found {
		m.empty.Report(fmt.Errorf("%s: all pods on the node are critical", t))
		return nil
	}
	m.empty.Report(nil)
	if !begun {
		starved()
	}
	m.evict(node, e, t.IsHard())
	return nil
}

// free takes the reclaim steps.
func (m *Manager) free(ctx context.Context, node Node, steps []pressure.Reclaim) error {
	ctx, cancel := context.WithTimeout(ctx, reclaimPatience)
	defer cancel()
	var errs []error
	for _, step := range steps {
		if err := node.Reclaim(ctx, step); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step, err))
		}
	}
	return errors.Join(errs...)
}
