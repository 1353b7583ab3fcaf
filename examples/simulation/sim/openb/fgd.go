// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Typical is the distribution of the typical pods of a trace, by which fragmentation is measured.
type Typical struct {
	groups []group
	// byModel are the groups that a node with the model can host, for the models of the groups and
	// "" for other models. refused is the frequency of all other groups.
	byModel map[string]accepted
}

// group are pods with equal requests.
type group struct {
	cpu, milli int64
	count      int
	models     string
	frequency  float64
	number     int
}

// accepted are the groups that may run on nodes of a model.
type accepted struct {
	groups  []group
	refused float64
}

// covered is the share of all pods that the typical pods are.
const covered = 0.95

// TypicalPods returns the most frequent requests, which together are 95 % of the pods.
func TypicalPods(pods []Pod) *Typical {
	type key struct {
		cpu, milli int64
		count      int
		models     string
	}
	numbers := map[key]int{}
	for _, p := range pods {
		numbers[key{p.Shape.Requests.CPU, p.Shape.GPU.Milli, p.Shape.GPU.Count, strings.Join(p.Shape.GPU.Models, "|")}]++
	}
	var groups []group
	for k, n := range numbers {
		groups = append(groups, group{k.cpu, k.milli, k.count, k.models, 0, n})
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(b.cpu, a.cpu), cmp.Compare(b.milli, a.milli),
			cmp.Compare(b.count, a.count), strings.Compare(b.models, a.models))
	})
	t := &Typical{byModel: map[string]accepted{}}
	sum := 0
	for _, g := range groups {
		if float64(sum) >= covered*float64(len(pods)) {
			break
		}
		sum += g.number
		t.groups = append(t.groups, g)
	}
	models := map[string]bool{"": true}
	for i := range t.groups {
		t.groups[i].frequency = float64(t.groups[i].number) / float64(sum)
		for _, model := range strings.Split(t.groups[i].models, "|") {
			models[model] = true
		}
	}
	for model := range models {
		t.byModel[model] = t.accepted(model)
	}
	return t
}

// accepted returns the groups that may run on a model.
func (t *Typical) accepted(model string) (a accepted) {
	for _, g := range t.groups {
		switch {
		case g.count == 0 || g.models != "" && !slices.Contains(strings.Split(g.models, "|"), model):
			a.refused += g.frequency
		default:
			a.groups = append(a.groups, g)
		}
	}
	return a
}

// Len returns the number of different requests.
func (t *Typical) Len() int { return len(t.groups) }

// Fragmentation returns the expected thousandths of GPUs of the node that a typical pod cannot use.
func (t *Typical) Fragmentation(n *sim.Node) float64 { return t.fragment(n.Model, cpuLeft(n), n.GPUs) }

// Gauge returns Share as a gauge.
func (t *Typical) Gauge() sim.Gauge {
	return sim.Gauge{Name: "fragmented gpu", Unit: "%", Value: t.Share}
}

// Share returns the fragmentation of all nodes, in percent of the GPUs that are left.
func (t *Typical) Share(s *sim.Snapshot) float64 {
	fragments, left := 0.0, int64(0)
	for _, n := range s.Nodes() {
		fragments += t.Fragmentation(n)
		left += n.GPULeft()
	}
	if left == 0 {
		return 0
	}
	return 100 * fragments / float64(left)
}

// fragment is Fragmentation for a state of a node.
func (t *Typical) fragment(model string, cpu int64, gpus []int64) (sum float64) {
	a, known := t.byModel[model]
	if !known {
		a = t.byModel[""]
	}
	all := int64(0)
	for _, left := range gpus {
		all += left
	}
	sum = a.refused * float64(all)
	for i := range a.groups {
		g := &a.groups[i]
		if cpu < g.cpu {
			sum += g.frequency * float64(all)
			continue
		}
		fitting, small := 0, int64(0)
		for _, left := range gpus {
			if left >= g.milli {
				fitting++
			} else {
				small += left
			}
		}
		if fitting < g.count {
			small = all
		}
		sum += g.frequency * float64(small)
	}
	return sum
}

// Name implements sim.Plugin.
func (t *Typical) Name() string { return string(FGD) }

// Local implements sim.Local.
func (t *Typical) Local() {}

// Score implements sim.Score: less additional fragmentation is better.
func (t *Typical) Score(c *sim.Cycle, n *sim.Node) int64 {
	score, _ := t.best(c.Pod.Shape, n)
	return score
}

// devices chooses the GPUs whose use scores best.
func (t *Typical) devices(c *sim.Cycle, n *sim.Node) []int {
	if c.Pod.Shape.GPU.Milli == 1000 || c.Pod.Shape.GPU.Count == 0 {
		return sim.Tightest(c, n)
	}
	_, device := t.best(c.Pod.Shape, n)
	return []int{device}
}

// best returns the score of a node and, for a share, the first GPU with this score.
func (t *Typical) best(s *sim.Shape, n *sim.Node) (score int64, device int) {
	var room [16]int64
	gpus := append(room[:0], n.GPUs...)
	before := t.fragment(n.Model, cpuLeft(n), gpus)
	rest := cpuLeft(n) - s.Requests.CPU
	rate := func() int64 {
		return int64(math.Floor(100 / (1 + math.Exp(-(before-t.fragment(n.Model, rest, gpus))/1000))))
	}
	want := &s.GPU
	if want.Count == 0 || want.Milli == 1000 {
		taken := 0
		for i := range gpus {
			if taken < want.Count && gpus[i] == 1000 {
				gpus[i] = 0
				taken++
			}
		}
		return rate(), 0
	}
	score = -1
	for i, left := range gpus {
		if left < want.Milli || slices.Contains(gpus[:i], left) {
			continue // an equal GPU has an equal score
		}
		gpus[i] -= want.Milli
		if s := rate(); s > score {
			score, device = s, i
		}
		gpus[i] = left
	}
	return score, device
}
