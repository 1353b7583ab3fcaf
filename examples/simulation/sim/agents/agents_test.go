// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/agents"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/openb"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// run returns the events of a run in the journal's form, and the report. Without agents the backend is
// sim.Timers.
func run(t *testing.T, real bool, o sim.Options) (events []string, report *sim.Report) {
	t.Helper()
	root := t.TempDir()
	var journal bytes.Buffer
	o.Journal = &journal
	synctest.Test(t, func(t *testing.T) {
		stop := func() error { return nil }
		if real {
			o.Backend, stop = agents.New(agents.Options{Nodes: o.Nodes, Root: root, Seed: o.Seed})
		}
		s, err := sim.New(o)
		require.NoError(t, err)
		report, err = s.Run(t.Context())
		require.NoError(t, err)
		require.NoError(t, stop())
	})
	for line := range strings.Lines(journal.String()) {
		if strings.Contains(line, `"event"`) {
			events = append(events, strings.TrimSpace(line))
		}
	}
	return events, report
}

// compare runs the same scenario on timers and on agents. controllers returns new controllers.
func compare(t *testing.T, o sim.Options, controllers func() []sim.Controller) *sim.Report {
	t.Helper()
	o.Controllers = controllers()
	timers, want := run(t, false, o)
	o.Controllers = controllers()
	real, got := run(t, true, o)
	require.NotEmpty(t, timers)
	for i := range min(len(timers), len(real)) {
		if timers[i] != real[i] {
			t.Fatalf("event %d of %d and %d:\ntimers %s\nagents %s", i, len(timers), len(real),
				strings.Join(timers[max(0, i-5):min(len(timers), i+3)], "\n       "), strings.Join(real[max(0, i-5):min(len(real), i+3)], "\n       "))
		}
	}
	assert.Len(t, real, len(timers))
	assert.Equal(t, []int{want.Submitted, want.Succeeded, want.Failed, want.Preempted, want.Unfinished}, []int{got.Submitted, got.Succeeded, got.Failed, got.Preempted, got.Unfinished})
	assert.Equal(t, want.Makespan, got.Makespan)
	return got
}

func none() []sim.Controller { return nil }

// model has a duration for each step.
var model = sim.Model{
	Source: "a test", Bind: 50 * time.Millisecond, Create: 600 * time.Millisecond, Stop: 3 * time.Second,
	Bandwidth: 100 << 20, ImageSizes: map[string]int64{"openb:latest": 1 << 30, "image:latest": 200 << 20},
}

// trace returns a small trace in the format of openb, with instants.
func trace(nodes, pods int) (nodeList, podList string) {
	var n, p strings.Builder
	n.WriteString("sn,cpu_milli,memory_mib,gpu,model\n")
	for i := range nodes {
		fmt.Fprintf(&n, "node-%03d,32000,131072,4,%s\n", i, []string{"T4", "V100"}[i%2])
	}
	random := rand.New(rand.NewPCG(1, 1))
	p.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n")
	for i := range pods {
		gpus := []string{"0,0,", "1,250,", "1,500,T4", "1,700,", "1,1000,", "2,1000,V100|T4", "4,1000,"}[random.IntN(7)]
		created := i / 3 * 20
		fmt.Fprintf(&p, "pod-%04d,%d,4096,%s,%d,%d,%d\n", i, 1000*(1+random.IntN(8)), gpus, created, created+60+random.IntN(900), created)
	}
	return n.String(), p.String()
}

var folder = flag.String("openb", "", "the folder with the CSV files of openb, for TestOpenBTrace; empty: a small trace of the test")

// TestOpenBTrace: placements are equal on timers and on agents.
func TestOpenBTrace(t *testing.T) {
	nodeList, podList := trace(10, 150)
	if *folder != "" {
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(*folder, name))
			require.NoError(t, err)
			return string(text)
		}
		nodeList, podList = read("openb_node_list_gpu_node.csv"), read("openb_pod_list_default.csv")
	}
	nodes, err := openb.ReadNodes(strings.NewReader(nodeList), "nodes.csv")
	require.NoError(t, err)
	pods, err := openb.ReadPods(strings.NewReader(podList), "pods.csv")
	require.NoError(t, err)
	if *folder != "" { // 149 days, in 22 minutes
		for i := range pods {
			for _, at := range []*time.Duration{&pods[i].Created, &pods[i].Scheduled, &pods[i].Deleted} {
				*at /= 10_000
			}
		}
	}
	work, err := openb.Replay(pods)
	require.NoError(t, err)
	for _, policy := range []openb.Policy{openb.FGD, openb.BestFit} {
		profile, err := policy.Profile(pods)
		require.NoError(t, err)
		report := compare(t, sim.Options{Nodes: nodes, Workload: work, Profile: profile, Seed: 42, Model: model}, none)
		t.Log(policy, report.Succeeded, report.Makespan)
	}
}

func nodes(n int) (out []*v1.Node) {
	for i := range n {
		node := &v1.Node{}
		node.Name = fmt.Sprintf("node-%d", i)
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
		out = append(out, node)
	}
	return out
}

func shape(t testing.TB, cpu string, priority int32) *sim.Shape {
	pod := &v1.Pod{Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "c", Image: "image"}}}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("100Mi")}
	s, err := sim.NewShape(pod, sim.GPURequest{})
	require.NoError(t, err)
	return s
}

// TestPreemption: evictions take the time of the model.
func TestPreemption(t *testing.T) {
	report := compare(t, sim.Options{
		Nodes: nodes(5), Profile: kube.Profile(), Seed: 3, Model: model,
		Workload: workload.Poisson{Seed: 3, Jobs: 100, Every: 20 * time.Second, Mean: 4 * time.Minute,
			Shapes: []*sim.Shape{shape(t, "500m", 0), shape(t, "2", 0), shape(t, "3", 10)}},
	}, func() []sim.Controller { return []sim.Controller{&sim.Jobs{}} })
	assert.NotZero(t, report.Preempted)
}

// TestLostNodes: pods of lost nodes start again at the return of the node, or are replaced.
func TestLostNodes(t *testing.T) {
	o := sim.Options{
		Nodes: nodes(6), Profile: kube.Profile(), Seed: 5, Model: model,
		Workload: workload.Poisson{Seed: 5, Jobs: 50, Every: 30 * time.Second, Mean: 4 * time.Minute, Shapes: []*sim.Shape{shape(t, "500m", 0), shape(t, "2", 0)}},
		Faults:   []sim.Fault{{Rate: 24, For: 10 * time.Minute}},
	}
	assert.NotZero(t, compare(t, o, none).LostNodes)
	assert.NotZero(t, compare(t, o, func() []sim.Controller { return []sim.Controller{&sim.Jobs{}, &sim.NodeLifecycle{}} }).LostNodes)
}

// TestRefusedPodEndsTheRun: a profile without plug-ins places pods where they do not fit.
func TestRefusedPodEndsTheRun(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o := sim.Options{Nodes: nodes(1), Workload: sim.Arrivals{{Name: "big", Shape: shape(t, "5", 0), Duration: time.Minute}}}
		var stop func() error
		o.Backend, stop = agents.New(agents.Options{Nodes: o.Nodes, Root: root})
		s, err := sim.New(o)
		require.NoError(t, err)
		_, err = s.Run(t.Context())
		require.ErrorContains(t, err, "agents: node node-0 refuses pod pod-1 of big: OutOfcpu")
		require.NoError(t, stop())
	})
}
