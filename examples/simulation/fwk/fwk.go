// SPDX-License-Identifier: Apache-2.0

package fwk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// ErrNotSimulated is the error of calls that have no counterpart in package sim.
var ErrNotSimulated = errors.New("fwk: not simulated")

// Factory makes a plug-in. The factories of kube-scheduler's plug-ins have this type.
type Factory = func(ctx context.Context, args apiruntime.Object, h framework.Handle) (framework.Plugin, error)

// Plugin configures a plug-in.
type Plugin struct {
	// New makes the plug-in. Required.
	New Factory
	// Args are the arguments for New.
	Args apiruntime.Object
	// Weight of the plug-in's scores. Defaults to 1.
	Weight int32
	// Without are extension points at which the plug-in is not called, such as "PreEnqueue".
	Without []string
}

// Options configure a Scheduler.
type Options struct {
	// Name is the name of the profile. Defaults to "default-scheduler".
	Name string
	// Plugins are in the order of their calls. Required.
	Plugins []Plugin
	// Objects are the API objects that plug-ins read, such as namespaces and services. Nodes and pods
	// come from the simulation. Defaults to the namespace "default", which is added if it is missing.
	Objects []apiruntime.Object
	// Event gets the events of plug-ins. Defaults to no event.
	Event func(regarding apiruntime.Object, kind, reason, note string)
}

// Scheduler has the plug-ins of a profile. It belongs to a single sim.Sim.
type Scheduler struct {
	name    string
	plugins []*plugin
	view    view
	current *sim.Cycle  // during a call of a plug-in
	pending pendingPods // pods that wait for Permit
	evicted []*sim.Pod  // by the client set, during PostFilter
	posting bool        // a PostFilter is running
	event   func(regarding apiruntime.Object, kind, reason, note string)
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	err     error
}

// plugin is a plug-in at its extension points. The fields of other points are nil.
type plugin struct {
	framework.Plugin
	weight     int64
	queueSort  framework.QueueSortPlugin
	preFilter  framework.PreFilterPlugin
	filter     framework.FilterPlugin
	postFilter framework.PostFilterPlugin
	preScore   framework.PreScorePlugin
	score      framework.ScorePlugin
	reserve    framework.ReservePlugin
	permit     framework.PermitPlugin
	hints      []framework.ClusterEventWithHint // nil: every event counts
	always     bool                             // every event counts
}

// New makes the plug-ins. If a plug-in needs a call or an extension point that a simulation lacks, the
// error names both.
func New(ctx context.Context, o Options) (*Scheduler, error) {
	if len(o.Plugins) == 0 {
		return nil, errors.New("fwk: Options.Plugins: none")
	}
	s := &Scheduler{name: o.Name, event: o.Event, pending: pendingPods{}}
	if s.name == "" {
		s.name = "default-scheduler"
	}
	s.view.init()
	if err := s.connect(o.Objects); err != nil {
		return nil, err
	}
	sorts := 0
	for i, config := range o.Plugins {
		p, err := s.newPlugin(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("fwk: Options.Plugins[%d]: %w", i, err)
		}
		if slices.ContainsFunc(s.plugins, func(other *plugin) bool { return other.Name() == p.Name() }) {
			return nil, fmt.Errorf("fwk: Options.Plugins[%d]: a second plug-in is named %q", i, p.Name())
		}
		if p.queueSort != nil {
			sorts++
		}
		s.plugins = append(s.plugins, p)
	}
	if sorts > 1 {
		return nil, errors.New("fwk: Options.Plugins: more than one QueueSort plug-in")
	}
	return s, nil
}

// newPlugin makes a plug-in and finds its extension points.
func (s *Scheduler) newPlugin(ctx context.Context, o Plugin) (*plugin, error) {
	switch {
	case o.New == nil:
		return nil, errors.New("New: nil")
	case o.Weight < 0:
		return nil, errors.New("Weight: negative")
	}
	made, err := o.New(ctx, o.Args, &handle{s})
	if err != nil {
		return nil, err
	}
	if made == nil {
		return nil, errors.New("New returned no plug-in")
	}
	if err := lacking(made, o.Without); err != nil {
		return nil, err
	}
	p := &plugin{Plugin: made, weight: int64(max(1, o.Weight))}
	at(made, "QueueSort", o.Without, &p.queueSort)
	at(made, "PreFilter", o.Without, &p.preFilter)
	at(made, "Filter", o.Without, &p.filter)
	at(made, "PostFilter", o.Without, &p.postFilter)
	at(made, "PreScore", o.Without, &p.preScore)
	at(made, "Score", o.Without, &p.score)
	at(made, "Reserve", o.Without, &p.reserve)
	at(made, "Permit", o.Without, &p.permit)
	var registers framework.EnqueueExtensions
	at(made, "EventsToRegister", o.Without, &registers)
	if p.always = registers == nil; !p.always {
		if p.hints, err = registers.EventsToRegister(ctx); err != nil {
			return nil, fmt.Errorf("%s: EventsToRegister: %w", made.Name(), err)
		}
	}
	return p, nil
}

// at stores the plug-in if it has the extension point.
func at[T any](made framework.Plugin, point string, without []string, to *T) {
	if p, ok := made.(T); ok && !slices.Contains(without, point) {
		*to = p
	}
}

// lacking returns an error for a plug-in with an extension point that package sim lacks.
func lacking(made framework.Plugin, without []string) error {
	for _, point := range []struct {
		name string
		has  bool
	}{
		{"PreEnqueue", is[framework.PreEnqueuePlugin](made)},
		{"PreBind", is[framework.PreBindPlugin](made)},
		{"Bind", is[framework.BindPlugin](made)},
		{"PostBind", is[framework.PostBindPlugin](made)},
	} {
		if point.has && !slices.Contains(without, point.name) {
			return fmt.Errorf("%s: %w: the extension point %s (Plugin.Without leaves it out)", made.Name(), ErrNotSimulated, point.name)
		}
	}
	return nil
}

func is[T any](made framework.Plugin) bool {
	_, ok := made.(T)
	return ok
}

// Err returns the first call of a plug-in that is not simulated, or nil.
func (s *Scheduler) Err() error { return s.err }

// refuse notes a call that is not simulated, and ends the cycle.
func (s *Scheduler) refuse(call string) error {
	err := fmt.Errorf("%w: %s", ErrNotSimulated, call)
	if s.err == nil {
		s.err = err
	}
	if s.current != nil {
		s.current.Fail(err.Error())
	}
	return err
}

// Profile returns the plug-ins for package sim. The caller may add plug-ins of package sim.
func (s *Scheduler) Profile() sim.Profile {
	out := sim.Profile{Name: s.name}
	for i, p := range s.plugins {
		of := adapter{s, p}
		if p.queueSort != nil {
			out.Less = of.less
		}
		if p.preFilter != nil {
			out.PreFilter = append(out.PreFilter, preFilter{of})
		}
		if p.filter != nil || p.preFilter != nil {
			out.Filter = append(out.Filter, filter{of})
		}
		if p.postFilter != nil {
			out.PostFilter = append(out.PostFilter, postFilter{of})
		}
		if p.score != nil {
			out.Score = append(out.Score, sim.WeightedScore{Score: score{of, i}, Weight: p.weight})
		}
		if p.reserve != nil {
			out.Reserve = append(out.Reserve, reserve{of})
		}
		if p.permit != nil {
			out.Permit = append(out.Permit, permit{of})
		}
	}
	return out
}
