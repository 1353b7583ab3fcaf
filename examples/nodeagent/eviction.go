// SPDX-License-Identifier: Apache-2.0

//go:build !noeviction

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction/stall"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/oomwatch"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/signals"
)

// evictionFlags are the flags of evictions. Names are the kubelet's.
type evictionFlags struct {
	hard, soft         limits
	softGrace, reclaim map[string]string
	merge              bool
	hold               time.Duration
	maxGrace           int // seconds

	thresholds []pressure.Threshold // set by complete
}

func (e *evictionFlags) register(set *pflag.FlagSet) {
	set.Var(&e.hard, "eviction-hard", "thresholds of free resources: below one, pods are evicted at once, as `signal<value,...`: memory.available<100Mi,nodefs.available<10%; \"\" = none (default with --kubeconfig or --config: the kubelet's; else none)")
	set.BoolVar(&e.merge, "merge-default-eviction-settings", false, "use the kubelet's defaults for signals that --eviction-hard does not name")
	set.Var(&e.soft, "eviction-soft", "thresholds of free resources: below one, pods are evicted after --eviction-soft-grace-period, as `signal<value,...`")
	set.StringToStringVar(&e.softGrace, "eviction-soft-grace-period", nil, "time that a signal must be below --eviction-soft, as `signal=duration,...`; required for each signal of --eviction-soft")
	set.StringToStringVar(&e.reclaim, "eviction-minimum-reclaim", nil, "amount that an eviction frees beyond the threshold, as `signal=value,...`")
	set.DurationVar(&e.hold, "eviction-pressure-transition-period", pressure.DefaultHold, "how long the node stays under pressure after a signal has recovered")
	set.IntVar(&e.maxGrace, "eviction-max-pod-grace-period", 0, "longest grace period in seconds of a pod that is evicted for --eviction-soft; 0 = a second, negative = the pod's own")
}

// complete sets defaults and validates the flags. A node outside a cluster has no thresholds by
// default: the full disk of a laptop is no reason to remove images.
func (e *evictionFlags) complete(f *flags, set *pflag.FlagSet) error {
	hard := map[string]string(e.hard)
	if f.kubeconfig != "" && !set.Changed("eviction-hard") {
		hard = pressure.DefaultHard()
		e.hard = hard
	}
	var err error
	e.thresholds, err = pressure.Parse(pressure.Settings{Hard: hard, MergeDefaults: e.merge, Soft: e.soft, SoftGrace: e.softGrace, Reclaim: e.reclaim, LimitsPods: f.cgroups.limitsPods()})
	switch {
	case err != nil:
		return fmt.Errorf("--eviction-hard, --eviction-soft, --eviction-soft-grace-period, --eviction-minimum-reclaim: %w (want signals such as memory.available, nodefs.available, imagefs.inodesFree and pid.available, with values such as 100Mi or 10%%)", err)
	case e.hold < 0:
		return fmt.Errorf("--eviction-pressure-transition-period %s: want 0 or more", e.hold)
	}
	return nil
}

// withheld returns the part of the capacity that pods may not request because of hard thresholds.
func (e *evictionFlags) withheld(capacity v1.ResourceList) v1.ResourceList {
	return pressure.Withheld(capacity, e.thresholds)
}

// limits is the value of a flag with thresholds, signal<value,….
type limits map[string]string

// String implements pflag.Value.
func (l *limits) String() string {
	var all []string
	for _, signal := range slices.Sorted(maps.Keys(*l)) {
		all = append(all, signal+"<"+(*l)[signal])
	}
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (*limits) Type() string { return "signal<value,..." }

// Set implements pflag.Value.
func (l *limits) Set(text string) error {
	*l = limits{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		signal, value, ok := strings.Cut(part, "<")
		signal = strings.TrimSpace(signal)
		if _, twice := (*l)[signal]; !ok || twice {
			return fmt.Errorf("%q: want signal<value, such as memory.available<100Mi, and each signal once", part)
		}
		(*l)[signal] = strings.TrimSpace(value)
	}
	return nil
}

// evictor evicts pods from this node.
type evictor struct {
	manager *eviction.Manager
	node    string
	joins   bool   // the node belongs to a cluster
	changed func() // called after a change of the conditions, by the agent's Run
}

// newEvictor returns the evictor of this node. Without thresholds, it enforces the limits of local
// storage that pods have.
func newEvictor(ctx context.Context, f flags, usage *collector, numbers *metrics, log *zap.Logger) (*evictor, error) {
	e := &evictor{node: f.node, joins: f.kubeconfig != "", changed: func() {}}
	opts := eviction.Options{
		Policy:   pressure.Policy{Thresholds: f.eviction.thresholds, Hold: f.eviction.hold, MaxGrace: time.Duration(f.eviction.maxGrace) * time.Second},
		Observer: &signals.Observer{Collector: usage},
		Hooks: eviction.Hooks{
			Conditions: func([]v1.NodeConditionType) { e.changed() },
			Evicted:    func(e pressure.Eviction) { numbers.evicted(e.Cause, e.Measured) },
		},
		Logger: log,
	}
	if len(f.eviction.thresholds) == 0 && f.kubeconfig != "" {
		log.Info("no pod is evicted when memory, disk space or process IDs of this node run out, because there are no thresholds: see --eviction-hard")
	}
	if slices.ContainsFunc(f.eviction.thresholds, func(t pressure.Threshold) bool { return t.Signal == pressure.MemoryAvailable }) {
		var err error
		if opts.Wake, err = stall.Watch(ctx, stall.Memory); err != nil {
			log.Debug("stalls for memory cannot be watched; the memory is measured every ten seconds only", zap.Error(err))
		}
	}
	var err error
	e.manager, err = eviction.New(opts)
	return e, err
}

// features returns the features of node.Options.
func (e *evictor) features(agent func() *node.Agent) features {
	return func(h *feature.Host) []feature.Feature {
		images := func(ctx context.Context) error { return agent().RemoveUnusedImages(ctx) }
		all := []feature.Feature{e.manager.Feature(h, eviction.HostOptions{NodeName: e.node, Images: images})}
		if e.joins {
			all = append(all, oomwatch.Feature(h, e.node))
		}
		return all
	}
}

// pressure returns the pressure conditions of the Node object.
func (e *evictor) pressure() map[v1.NodeConditionType]bool {
	under, all := e.manager.Conditions(), map[v1.NodeConditionType]bool{}
	for _, c := range pressure.Conditions() {
		all[c] = slices.Contains(under, c)
	}
	return all
}
