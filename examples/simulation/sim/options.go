// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Options configure a Sim.
type Options struct {
	// Name is the name of the run in reports. Defaults to the name of the profile.
	Name string
	// Origin says where the nodes and the workload come from, with the hashes of traces, for the head of
	// reports.
	Origin string
	// Nodes are the cluster. Required.
	Nodes []*v1.Node
	// Workload submits pods. Defaults to a workload without pods, for controllers that submit pods.
	Workload Workload
	// Profile is the scheduler. The zero Profile binds each pod to the first node.
	Profile Profile
	// Backend runs the pods. Defaults to Timers.
	Backend func(BackendInput) (Backend, error)
	// Model are the durations of starts and ends. Defaults to zero durations.
	Model Model
	// Faults happen to nodes.
	Faults []Fault
	// Controllers react to events.
	Controllers []Controller
	// Seed is the seed of all random numbers of the run.
	Seed uint64
	// GiveUp drops a pod that does not fit at its first attempt. Defaults to a queue with back-off.
	GiveUp bool
	// Until ends the run at an instant. Defaults to the end of the workload.
	Until time.Duration
	// Journal gets a line of JSON for each event. Defaults to no journal.
	Journal io.Writer
	// Gauges are sampled for plots, beside the gauges that every report has.
	Gauges []Gauge
	// Results returns further values for the report. It is called after the last event.
	Results func() []Result
}

// Workload is a sequence of submissions in order of time.
type Workload interface {
	// Arrivals yields the submissions. An error ends the run.
	Arrivals() iter.Seq2[Arrival, error]
}

// Arrival is the submission of a pod or of a gang.
type Arrival struct {
	At time.Duration
	// Name is the name of the pod, or of the gang, whose pods get a number each.
	Name  string
	Shape *Shape
	// Pods is the number of equal pods. More than one pod is a gang. Defaults to 1.
	Pods int
	// MinCount is the number of pods of a gang that must run at once. Defaults to Pods.
	MinCount int
	// Duration of the containers. 0: the pods run until the end of the simulation.
	Duration time.Duration
	// User is the owner for the fairness of the report.
	User string
}

// Gauge is a value over time.
type Gauge struct {
	Name string
	// Unit is the unit in plots, such as "%".
	Unit string
	// Value reads the value. It does not write to the Snapshot.
	Value func(s *Snapshot) float64
}

// Arrivals is a Workload in memory.
type Arrivals []Arrival

// Arrivals implements Workload.
func (a Arrivals) Arrivals() iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		for _, arrival := range a {
			if !yield(arrival, nil) {
				return
			}
		}
	}
}

// validate checks the options and fills in defaults.
func (o Options) validate() (Options, error) {
	if len(o.Nodes) == 0 {
		return o, errors.New("sim: Options.Nodes: none")
	}
	if o.Until < 0 {
		return o, errors.New("sim: Options.Until: negative")
	}
	for i, f := range o.Faults {
		if err := f.validate(); err != nil {
			return o, fmt.Errorf("sim: Options.Faults[%d]: %w", i, err)
		}
	}
	for i, g := range o.Gauges {
		if g.Name == "" || g.Value == nil {
			return o, fmt.Errorf("sim: Options.Gauges[%d]: without a name or a value", i)
		}
	}
	if i := slices.Index(o.Controllers, nil); i >= 0 {
		return o, fmt.Errorf("sim: Options.Controllers[%d]: nil", i)
	}
	if o.Workload == nil {
		o.Workload = Arrivals(nil)
	}
	if o.Backend == nil {
		o.Backend = Timers
	}
	if o.Name == "" {
		o.Name = o.Profile.Name
	}
	if o.Until == 0 {
		o.Until = Never
	}
	return o, nil
}
