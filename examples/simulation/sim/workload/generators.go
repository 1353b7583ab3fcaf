// SPDX-License-Identifier: Apache-2.0

// Package workload generates workloads for package sim.
//
//	w := workload.Poisson{Seed: 1, Jobs: 1000, Every: time.Second, Mean: time.Minute, Shapes: shapes}
//
// A generator is a value: each call of Arrivals yields the same jobs.
package workload

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Poisson is a workload with independent arrivals and exponentially distributed durations.
type Poisson struct {
	Seed uint64
	// Jobs is the number of arrivals. Required.
	Jobs int
	// Every is the mean time between two arrivals, and Mean the mean duration of a job. Required.
	Every, Mean time.Duration
	// Shapes are chosen with equal chances. Required.
	Shapes []*sim.Shape
	// Gang is the number of pods of a job. Defaults to 1.
	Gang int
	// Users is the number of users. Their names are "user-0" and so on. Defaults to 1.
	Users int
	// Rate changes the rate of arrivals over time, as a factor from 0 to 1. Defaults to 1. Diurnal
	// is a day and a night.
	Rate func(at time.Duration) float64
}

// Diurnal returns a rate that is 1 in the middle of each day and least in the middle of each night.
func Diurnal(least float64) func(at time.Duration) float64 {
	return func(at time.Duration) float64 {
		day := 0.5 - 0.5*math.Cos(2*math.Pi*at.Hours()/24)
		return least + (1-least)*day
	}
}

// Arrivals implements sim.Workload.
func (p Poisson) Arrivals() iter.Seq2[sim.Arrival, error] {
	return func(yield func(sim.Arrival, error) bool) {
		if p.Jobs <= 0 || p.Every <= 0 || p.Mean <= 0 || len(p.Shapes) == 0 {
			yield(sim.Arrival{}, errors.New("workload: Poisson: Jobs, Every, Mean and Shapes are required"))
			return
		}
		random := rand.New(rand.NewPCG(p.Seed, 3))
		at := time.Duration(0)
		for i := range p.Jobs {
			at += p.gap(random, at)
			job := sim.Arrival{
				At: at, Name: fmt.Sprintf("job-%d", i), Shape: p.Shapes[random.IntN(len(p.Shapes))],
				Pods: p.Gang, Duration: max(time.Millisecond, exponential(random, p.Mean)),
				User: fmt.Sprintf("user-%d", random.IntN(max(1, p.Users))),
			}
			if !yield(job, nil) {
				return
			}
		}
	}
}

// gap returns the time to the next arrival. Arrivals at the full rate are thinned out by Rate.
func (p Poisson) gap(random *rand.Rand, at time.Duration) (gap time.Duration) {
	for range 10000 {
		gap += exponential(random, p.Every)
		if p.Rate == nil || random.Float64() < p.Rate(at+gap) {
			break
		}
	}
	return gap
}

// exponential returns an exponentially distributed duration of whole milliseconds.
func exponential(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(random.ExpFloat64() * float64(mean)).Truncate(time.Millisecond)
}
