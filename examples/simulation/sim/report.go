// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"slices"
	"time"
)

// Report is the outcome of a run. All durations are virtual, except for Decision. The last line of a
// journal is the Report in JSON, without Decision.
type Report struct {
	Name, Profile, Backend string
	// Version is the version of this module in the program, and Origin is Options.Origin.
	Version, Origin string
	// Model is the source of the durations of starts.
	Model string
	Seed  uint64
	Nodes int

	// Numbers of pods. Succeeded pods have done their work. Unfinished pods were pending or running
	// at the end.
	Submitted, Succeeded, Failed, Dropped, Unfinished int
	// Preempted and Evicted are numbers of evictions, by preemption and in all.
	Preempted, Evicted int
	// LostNodes is the number of failures of nodes.
	LostNodes int
	// Cycles is the number of scheduling cycles.
	Cycles int

	// Horizon is the end of the run. Makespan is the time from the first submission to the last end.
	Horizon, Makespan time.Duration
	// Usage are the shares of the cluster, weighted by time.
	Usage []Usage
	// LostCPU and LostGPU are the work of evicted pods, in core seconds and GPU seconds.
	LostCPU, LostGPU float64
	// Jain is the fairness index over users of the inverse mean slowdown, from 0 to 1.
	Jain float64
	// Users are the users with completed work, by name.
	Users []User
	// Results are the values of Options.Results.
	Results []Result

	// The times of pods in seconds. Wait is from the submission to the first start; a gang waits for
	// its MinCount-th pod. BindLatency is from the submission to the binding. Pull, Create and Ready split
	// the time from the binding to readiness. Completion is from the first submission to the end.
	Wait, BindLatency, Pull, Create, Ready, Completion Distribution
	// Slowdown is the completion time divided by the duration of the work, where a work shorter
	// than 10 s counts as 10 s; at least 1.
	Slowdown Distribution
	// Decision is the real time of a scheduling cycle in seconds. It differs from run to run.
	Decision Distribution `json:"-"`
	// Series are values over virtual time.
	Series []Series
}

// Usage are the time-weighted shares of a resource, in percent of the nodes that are not lost.
type Usage struct {
	Resource string
	// Allocation counts bound pods. Utilisation counts pods that run.
	Allocation, Utilisation float64
}

// User is an owner of work.
type User struct {
	Name string
	Jobs int
	// Slowdown is the mean.
	Slowdown float64
}

// Result is a value of an experiment of its own.
type Result struct {
	Name string
	// Unit is "%", "s" or any other unit.
	Unit  string
	Value float64
}

// Series is a value at instants with equal distances.
type Series struct {
	Name, Unit string
	Step       time.Duration
	Values     []float64
}

// Distribution describes a sample.
type Distribution struct {
	N         int
	Mean, Max float64
	// Quantiles are the 0th to 100th percentiles, by nearest rank. Empty without a sample.
	Quantiles []float64
}

// Of returns a percentile from 0 to 100, and 0 without a sample.
func (d *Distribution) Of(percentile int) float64 {
	if len(d.Quantiles) == 0 {
		return 0
	}
	return d.Quantiles[min(100, max(0, percentile))]
}

// distribution sorts the sample.
func distribution(sample []float64) Distribution {
	d := Distribution{N: len(sample)}
	if d.N == 0 {
		return d
	}
	slices.Sort(sample)
	sum := 0.0
	for _, x := range sample {
		sum += x
	}
	d.Mean, d.Max = sum/float64(d.N), sample[d.N-1]
	d.Quantiles = make([]float64, 101)
	for q := range d.Quantiles {
		rank := int(math.Ceil(float64(q) / 100 * float64(d.N)))
		d.Quantiles[q] = sample[max(0, rank-1)]
	}
	return d
}

// jain returns the fairness index (Σx)² / (n·Σx²), and 1 without values.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range values {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(values)) * squares)
}

// Report returns the results up to now.
func (s *Sim) Report() *Report {
	if s.final != nil {
		return s.final
	}
	return s.record.finish()
}
