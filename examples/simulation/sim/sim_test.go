// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// nodes returns nodes with 4 cores and 8 GiB.
func nodes(n int) (out []*v1.Node) {
	for i := range n {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
		out = append(out, node)
	}
	return out
}

// shape returns a shape with a request of cpu.
func shape(t testing.TB, cpu string, edit ...func(*v1.Pod)) *sim.Shape {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "image"}}}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("100Mi")}
	for _, e := range edit {
		e(pod)
	}
	s, err := sim.NewShape(pod, sim.GPURequest{})
	require.NoError(t, err)
	return s
}

func priority(p int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }

// run returns the report and the journal.
func run(t testing.TB, o sim.Options) (*sim.Report, string) {
	var journal bytes.Buffer
	o.Journal = &journal
	s, err := sim.New(o)
	require.NoError(t, err)
	report, err := s.Run(t.Context())
	require.NoError(t, err)
	return report, journal.String()
}

// TestQueueing: a node with room for two pods runs five pods of a minute in three minutes.
func TestQueueing(t *testing.T) {
	var work sim.Arrivals
	for i := range 5 {
		work = append(work, sim.Arrival{Name: fmt.Sprintf("pod-%d", i), Shape: shape(t, "2"), Duration: time.Minute})
	}
	report, journal := run(t, sim.Options{Nodes: nodes(1), Workload: work, Profile: kube.Profile()})
	assert.Equal(t, 5, report.Succeeded)
	assert.Equal(t, 3*time.Minute, report.Makespan)
	assert.Equal(t, 120.0, report.Wait.Max)
	assert.Contains(t, journal, `{"t":0,"event":"refused","pod":"pod-2","text":"0/1 nodes are available: 1 Insufficient cpu."}`)
}

// TestEqualOptionsGiveEqualJournals compares journals of a run with faults, controllers and preemption.
func TestEqualOptionsGiveEqualJournals(t *testing.T) {
	of := func(seed uint64) (*sim.Report, string) {
		return run(t, sim.Options{
			Nodes: nodes(20), Profile: kube.Profile(), Seed: seed,
			Workload: workload.Poisson{
				Seed: seed, Jobs: 1000, Every: 10 * time.Second, Mean: 4 * time.Minute,
				Shapes: []*sim.Shape{shape(t, "500m"), shape(t, "2"), shape(t, "3", priority(10))},
			},
			Faults:      []sim.Fault{{Rate: 12, For: 20 * time.Minute}},
			Controllers: []sim.Controller{&sim.Jobs{}, &sim.NodeLifecycle{}},
		})
	}
	first, a := of(1)
	_, b := of(1)
	_, c := of(2)
	assert.True(t, a == b, "equal seeds")
	assert.False(t, a == c, "other seeds")
	assert.Equal(t, 1000, first.Succeeded)
	assert.Equal(t, first.Submitted, first.Succeeded+first.Failed)
	assert.NotZero(t, first.Preempted)
	assert.NotZero(t, first.LostNodes)
	assert.Zero(t, first.Unfinished)
}

// TestPreemption: a pod of high priority takes the place of the pod of low priority, which runs
// again afterwards.
func TestPreemption(t *testing.T) {
	report, journal := run(t, sim.Options{
		Nodes: nodes(1), Profile: kube.Profile(), Model: sim.Model{Stop: 5 * time.Second}, Controllers: []sim.Controller{&sim.Jobs{}},
		Workload: sim.Arrivals{
			{Name: "low", Shape: shape(t, "3"), Duration: time.Minute},
			{Name: "high", At: 10 * time.Second, Shape: shape(t, "3", priority(1)), Duration: time.Minute},
		},
	})
	assert.Equal(t, 1, report.Preempted)
	assert.Equal(t, 135*time.Second, report.Makespan, "the stop, and a minute for each pod")
	assert.InDelta(t, 45, report.LostCPU, 1e-9, "15 s of 3 cores")
	assert.Contains(t, journal, `"event":"evicting","pod":"low","node":"node-0","text":"Preempted"`)
	assert.Contains(t, journal, `{"t":75,"event":"bound","pod":"low-retry-1","node":"node-0"}`)
}

// TestVictimOnLostNode: a preemptor whose victim is on a lost node preempts elsewhere as soon as the
// lost node is tainted, whether the node is lost before or after the preemption.
func TestVictimOnLostNode(t *testing.T) {
	of := func(lost time.Duration, controllers ...sim.Controller) (*sim.Report, string) {
		return run(t, sim.Options{
			Nodes: nodes(2), Profile: kube.Profile(), Model: sim.Model{Stop: 10 * time.Second}, Controllers: controllers,
			Workload: sim.Arrivals{
				{Name: "low-a", Shape: shape(t, "3"), Duration: time.Hour},
				{Name: "low-b", At: time.Second, Shape: shape(t, "3"), Duration: time.Hour},
				{Name: "high", At: 10 * time.Second, Shape: shape(t, "3", priority(1)), Duration: time.Minute},
			},
			Faults: []sim.Fault{{Node: "node-1", At: lost}},
		})
	}
	for _, lost := range []time.Duration{5 * time.Second, 15 * time.Second} {
		report, journal := of(lost, &sim.NodeLifecycle{})
		assert.Contains(t, journal, `{"t":10,"event":"evicting","pod":"low-b","node":"node-1","text":"Preempted"}`)
		tainted := lost.Seconds() + 50
		assert.Contains(t, journal, fmt.Sprintf(`{"t":%v,"event":"evicting","pod":"low-a","node":"node-0","text":"Preempted"}`, tainted), lost)
		assert.Contains(t, journal, fmt.Sprintf(`{"t":%v,"event":"bound","pod":"high","node":"node-0"}`, tainted+10), lost)
		assert.Equal(t, 1, report.Succeeded)
		assert.Equal(t, 2, report.Preempted)

		report, _ = of(lost) // the scheduler does not learn of the loss
		assert.Equal(t, time.Hour+time.Minute, report.Makespan, "high runs after low-a")
		assert.Equal(t, 1, report.Unfinished)
	}
}

// TestVictimIsAwaited: while a victim terminates on the nominated node, the preemptor evicts no other
// pod, although an event lets it be tried again.
func TestVictimIsAwaited(t *testing.T) {
	_, journal := run(t, sim.Options{
		Nodes: nodes(2), Profile: kube.Profile(), Model: sim.Model{Stop: 10 * time.Second}, Controllers: []sim.Controller{&sim.NodeLifecycle{}},
		Workload: sim.Arrivals{
			{Name: "early", Shape: shape(t, "3", priority(1)), Duration: 11 * time.Second},
			{Name: "low-a", Shape: shape(t, "3"), Duration: time.Hour},
			{Name: "high", At: 10 * time.Second, Shape: shape(t, "3", priority(1)), Duration: time.Minute},
			{Name: "low-b", At: 11 * time.Second, Shape: shape(t, "3"), Duration: time.Hour},
			{Name: "small", At: 11 * time.Second, Shape: shape(t, "1"), Duration: 9 * time.Second},
		},
		Faults: []sim.Fault{{Node: "node-1", At: 15 * time.Second}},
	})
	assert.Contains(t, journal, `{"t":20,"event":"refused","pod":"high"`)
	assert.Contains(t, journal, `{"t":65,"event":"evicting","pod":"low-b","node":"node-0","text":"Preempted"}`)
}

// TestGang: a gang waits until all of its pods fit.
func TestGang(t *testing.T) {
	report, journal := run(t, sim.Options{
		Nodes: nodes(2), Profile: kube.Profile(),
		Workload: sim.Arrivals{
			{Name: "first", Shape: shape(t, "2"), Duration: time.Minute},
			{Name: "gang", Shape: shape(t, "3"), Pods: 2, Duration: time.Minute},
		},
	})
	assert.Equal(t, 2*time.Minute, report.Makespan)
	assert.Equal(t, 2, strings.Count(journal, `{"t":60,"event":"bound","pod":"gang-`))
}

// TestLostNode: the pods of a lost node are evicted after grace period and toleration, and the
// replacements run elsewhere.
func TestLostNode(t *testing.T) {
	report, journal := run(t, sim.Options{
		Nodes: nodes(2), Profile: kube.Profile(),
		Faults:      []sim.Fault{{Node: "node-0", At: time.Minute, For: time.Hour}},
		Controllers: []sim.Controller{&sim.Replicas{Name: "web", Shape: shape(t, "1"), Count: 2}, &sim.NodeLifecycle{}},
	})
	assert.Equal(t, 1, report.LostNodes)
	assert.Equal(t, 1, report.Evicted)
	assert.Contains(t, journal, `{"t":110,"event":"node-tainted","node":"node-0"}`)
	assert.Contains(t, journal, `{"t":410,"event":"evicting","pod":"web-1","node":"node-0","text":"DeletionByTaintManager"}`)
	assert.Contains(t, journal, `{"t":410,"event":"bound","pod":"web-3","node":"node-1"}`)
}

// TestPulls: the second pod of a node shares the pull of the first pod, and a third pod needs none.
func TestPulls(t *testing.T) {
	_, journal := run(t, sim.Options{
		Nodes: nodes(1), Profile: kube.Profile(),
		Model: sim.Model{Bandwidth: 1 << 20, ImageSizes: map[string]int64{"image:latest": 10 << 20}, Create: time.Second},
		Workload: sim.Arrivals{
			{Name: "a", Shape: shape(t, "1"), Duration: time.Minute},
			{Name: "b", At: 4 * time.Second, Shape: shape(t, "1"), Duration: time.Minute},
			{Name: "c", At: 20 * time.Second, Shape: shape(t, "1"), Duration: time.Minute},
		},
	})
	for _, want := range []string{`{"t":11,"event":"started","pod":"a"`, `{"t":11,"event":"started","pod":"b"`, `{"t":21,"event":"started","pod":"c"`} {
		assert.Contains(t, journal, want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]sim.Options{
		"Options.Nodes: none":        {},
		"a second node is named":     {Nodes: append(nodes(1), nodes(1)...)},
		"Options.Faults[0]":          {Nodes: nodes(1), Faults: []sim.Fault{{}}},
		"Options.Gauges[0]":          {Nodes: nodes(1), Gauges: []sim.Gauge{{}}},
		"Profile.Score[0]":           {Nodes: nodes(1), Profile: sim.Profile{Score: []sim.WeightedScore{{}}}},
		"Options.Until":              {Nodes: nodes(1), Until: -1},
		"Options.Controllers[0]: ni": {Nodes: nodes(1), Controllers: []sim.Controller{nil}},
	} {
		_, err := sim.New(o)
		assert.ErrorContains(t, err, want)
	}
}
