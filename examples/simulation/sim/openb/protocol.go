// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Experiment is a run of the paper's experiment.
type Experiment struct {
	// Cluster and Pods are as read by ReadNodes and ReadPods. Required. They are not changed.
	Cluster []*v1.Node
	Pods    []Pod
	Policy  Policy
	// Seed of the run. The paper has the seeds 42 to 51.
	Seed int64
	// Demand at the end, in percent of the GPUs of the cluster. Defaults to 130.
	Demand int
}

// Curve is the outcome of an Experiment.
type Curve struct {
	// At100 is the allocation at 100 % demand: the mean over the arrivals at which the demand,
	// rounded to percent, is 100.
	At100 float64
	// Demand and Allocation are percentages of the GPUs of the cluster, a pair for each arrival.
	Demand, Allocation []float64
	// Failed is the number of pods that did not fit.
	Failed int

	total, arrived, allocated int64 // thousandths of GPUs
	sum100                    float64
	n100                      int
}

// Run runs the experiment.
func (e Experiment) Run(ctx context.Context) (*Curve, error) {
	options, curve, err := e.Options()
	if err != nil {
		return nil, err
	}
	s, err := sim.New(options)
	if err != nil {
		return nil, err
	}
	if _, err := s.Run(ctx); err != nil {
		return nil, err
	}
	return curve, nil
}

// Start implements sim.Controller.
func (c *Curve) Start(*sim.Control) {}

// Handle implements sim.Controller: it adds a pair for each outcome.
func (c *Curve) Handle(_ *sim.Control, e sim.Event) {
	switch e.Kind {
	case sim.Submitted:
		c.arrived += e.Pod.Shape.GPU.Total()
		return
	case sim.Bound:
		c.allocated += e.Pod.Shape.GPU.Total()
	case sim.Dropped:
		c.Failed++
	default:
		return
	}
	demand, allocation := percent(c.arrived, c.total), math.Round(100*percent(c.allocated, c.total))/100
	c.Demand = append(c.Demand, demand)
	c.Allocation = append(c.Allocation, allocation)
	if math.RoundToEven(demand) == 100 {
		c.sum100 += allocation
		c.n100++
		c.At100 = c.sum100 / float64(c.n100)
	}
}

// results are the values for the report.
func (c *Curve) results() []sim.Result {
	if c.n100 == 0 {
		return nil
	}
	return []sim.Result{{Name: "GPU allocation at 100 % demand", Unit: "%", Value: c.At100}}
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(whole) }

// Options returns the options of a single simulation, for a run with a journal or a report. The Curve
// is complete after the run.
func (e Experiment) Options() (sim.Options, *Curve, error) {
	total := int64(0)
	for _, node := range e.Cluster {
		gpus := node.Status.Allocatable[sim.LabelGPUs]
		total += 1000 * gpus.Value()
	}
	if len(e.Pods) == 0 || total == 0 {
		return sim.Options{}, nil, errors.New("openb: an experiment needs pods, and a cluster with GPUs")
	}
	random := rand.New(rand.NewSource(e.Seed))
	random.Int() // the paper's program draws a number before it shuffles
	pods := slices.Clone(e.Pods)
	slices.SortStableFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	order := slices.Clone(pods)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	order = tune(order, pods, total*int64(cmp.Or(e.Demand, 130))/100, random)
	profile, err := e.Policy.Profile(e.Pods)
	if err != nil {
		return sim.Options{}, nil, err
	}
	curve := &Curve{total: total}
	return sim.Options{
		Name: fmt.Sprintf("%s, seed %d", e.Policy, e.Seed), Nodes: permuted(e.Cluster, random), Profile: profile,
		Workload: inOrder(order), GiveUp: true, Seed: uint64(e.Seed),
		Model:       sim.Model{Source: "no durations: a pod arrives each second, starts at once and does not end"},
		Controllers: []sim.Controller{curve},
		Results:     curve.results,
	}, curve, nil
}

// tune appends copies of random pods, or removes random pods, until the demand of the order is as
// wanted.
func tune(order, pods []Pod, want int64, random *rand.Rand) []Pod {
	demand := int64(0)
	for _, p := range order {
		demand += p.Shape.GPU.Total()
	}
	for n := 0; demand <= want; n++ {
		clone := pods[random.Intn(len(pods))]
		if demand+clone.Shape.GPU.Milli > want || n > 100*len(pods) {
			return order
		}
		clone.Name = fmt.Sprintf("%s-clone-%d", clone.Name, n)
		demand += clone.Shape.GPU.Total()
		order = append(order, clone)
	}
	for demand > want {
		i := random.Intn(len(order))
		demand -= order[i].Shape.GPU.Total()
		order = slices.Delete(order, i, i+1)
	}
	return order
}

// permuted returns the nodes in random order, which decides between equal scores.
func permuted(nodes []*v1.Node, random *rand.Rand) []*v1.Node {
	sorted := slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	out := make([]*v1.Node, len(sorted))
	for i, k := range random.Perm(len(sorted)) {
		out[k] = sorted[i]
	}
	return out
}

// inOrder lets a pod arrive each second.
func inOrder(order []Pod) sim.Arrivals {
	arrivals := make(sim.Arrivals, len(order))
	for i, p := range order {
		arrivals[i] = sim.Arrival{At: time.Duration(i) * time.Second, Name: p.Name, Shape: p.Shape}
	}
	return arrivals
}
