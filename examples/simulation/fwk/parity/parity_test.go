// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/keelson-dev/keelson/examples/simulation/fwk"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
)

var (
	nodeCount = flag.Int("nodes", 200, "the nodes")
	podCount  = flag.Int("pods", 2000, "the pods")
	seed      = flag.Uint64("seed", 1, "of nodes and pods")
)

// weighted is a plug-in of kube-scheduler with the weight of its scores.
type weighted struct {
	name   string
	weight int32
}

// The profiles: that of the acceptance, and the default profile without volumes, claims and gates.
var (
	small = []weighted{{"TaintToleration", 3}, {"NodeAffinity", 2}, {"NodeResourcesFit", 1}}
	large = []weighted{
		{"NodeUnschedulable", 0}, {"NodeName", 0}, {"TaintToleration", 3}, {"NodeAffinity", 2}, {"NodePorts", 0}, {"NodeResourcesFit", 1},
		{"PodTopologySpread", 2}, {"InterPodAffinity", 2}, {"NodeResourcesBalancedAllocation", 1}, {"ImageLocality", 1},
	}
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The gate is on by default, and reuses results for 500 ms of real time.
	if err := utilfeature.DefaultMutableFeatureGate.Set("OpportunisticBatching=false"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestPlacements: kube-scheduler's plug-ins in package sim place each pod of a sequence on the node
// that kube-scheduler chooses. Pods end in between.
func TestPlacements(t *testing.T) {
	for _, test := range []struct {
		name    string
		plugins []weighted
	}{{"fit, taints, affinity", small}, {"default profile", large}} {
		t.Run(test.name, func(t *testing.T) {
			nodes, work := cluster(*seed, *nodeCount, *podCount)
			steps := simulate(t, nodes, work, adapted(t, test.plugins).Profile())
			compare(t, "fwk", steps, reference(t, nodes, test.plugins, steps))
		})
	}
}

// TestOwnPlugins: the same for the plug-ins of package sim/kube.
func TestOwnPlugins(t *testing.T) {
	nodes, work := cluster(*seed, *nodeCount, *podCount)
	profile := kube.Profile()
	profile.PostFilter, profile.Sample = nil, nil
	steps := simulate(t, nodes, work, profile)
	compare(t, "sim/kube", steps, reference(t, nodes, large, steps))
}

// step is the end of a pod, or the decision about a pod.
type step struct {
	pod  *v1.Pod
	ends bool
	node string // "": the pod does not fit
}

// compare counts the placements that are equal. At least 99.9 % must be.
func compare(t *testing.T, of string, steps []step, nodes []string) {
	decisions, refused, differ := 0, 0, 0
	for i, s := range steps {
		if s.ends {
			continue
		}
		decisions++
		if s.node == "" {
			refused++
		}
		if s.node != nodes[i] {
			if differ++; differ <= 10 {
				t.Logf("%s: %q, kube-scheduler: %q, for pod %s %v", of, s.node, nodes[i], s.pod.Name, s.pod.Spec)
			}
		}
	}
	t.Logf("%d decisions (%d refusals) on %d nodes: %d differ from kube-scheduler", decisions, refused, *nodeCount, differ)
	require.Greater(t, decisions, *podCount-1)
	require.LessOrEqual(t, 1000*differ, decisions)
}

// adapted returns plug-ins of kube-scheduler in package fwk, with their default arguments.
func adapted(t *testing.T, of []weighted) *fwk.Scheduler {
	registry, o := plugins.NewInTreeRegistry(), fwk.Options{}
	for _, p := range of {
		require.Contains(t, registry, p.name)
		plugin := fwk.Plugin{New: registry[p.name], Weight: p.weight}
		for _, c := range defaults.PluginConfigsV1 {
			if c.Name == p.name {
				plugin.Args = c.Args
			}
		}
		o.Plugins = append(o.Plugins, plugin)
	}
	s, err := fwk.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Err()) })
	return s
}

// simulate runs the workload, and returns the decisions and ends in their order.
func simulate(t *testing.T, nodes []*v1.Node, work sim.Workload, profile sim.Profile) (steps []step) {
	s, err := sim.New(sim.Options{Nodes: nodes, Workload: work, Profile: profile, GiveUp: true, Seed: *seed})
	require.NoError(t, err)
	began := time.Now()
	for {
		e, more := s.Step()
		if !more {
			break
		}
		switch e.Kind {
		case sim.Bound:
			steps = append(steps, step{pod: object(e.Pod), node: e.Node.Name})
		case sim.Dropped:
			steps = append(steps, step{pod: object(e.Pod)})
		case sim.Ended:
			steps = append(steps, step{pod: object(e.Pod), ends: true})
		}
	}
	require.NoError(t, s.Err())
	t.Logf("package sim: %v", time.Since(began).Round(time.Millisecond))
	return steps
}

// object returns the API object of a pod.
func object(p *sim.Pod) *v1.Pod {
	pod := p.Shape.Template.DeepCopy()
	pod.Name, pod.Namespace = p.Name, metav1.NamespaceDefault
	return pod
}

// cluster returns random nodes and pods with all that the profiles look at.
func cluster(seed uint64, nodeCount, podCount int) (nodes []*v1.Node, work sim.Arrivals) {
	random := rand.New(rand.NewPCG(seed, 7))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for i := range nodeCount {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i)}}
		node.Labels = map[string]string{v1.LabelHostname: node.Name, "disk": pick("ssd", "hdd"), "pool": pick("a", "b", "c")}
		node.Status.Allocatable = v1.ResourceList{
			"cpu": resource.MustParse(pick("4", "8", "16")), "memory": resource.MustParse(pick("8Gi", "16Gi", "32Gi")), "pods": resource.MustParse("40"),
		}
		node.Status.Capacity = node.Status.Allocatable
		if random.IntN(4) == 0 {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: "team", Value: pick("red", "blue"), Effect: v1.TaintEffect(pick("NoSchedule", "PreferNoSchedule"))})
		}
		if random.IntN(3) == 0 {
			node.Status.Images = []v1.ContainerImage{{Names: []string{pick("example.com/a:1", "example.com/b:1")}, SizeBytes: 500 << 20}}
		}
		nodes = append(nodes, node)
	}
	var shapes []*sim.Shape
	for range 40 {
		shape, err := sim.NewShape(template(random, pick), sim.GPURequest{})
		if err != nil {
			panic(err)
		}
		shapes = append(shapes, shape)
	}
	var at time.Duration
	for i := range podCount {
		at += time.Second
		work = append(work, sim.Arrival{
			At: at, Name: fmt.Sprintf("pod-%05d", i), Shape: shapes[random.IntN(len(shapes))],
			Duration: time.Duration(1+random.IntN(2*nodeCount*13)) * time.Second,
		})
	}
	return nodes, work
}

// template returns a random pod.
func template(random *rand.Rand, pick func(...string) string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Labels: map[string]string{"app": pick("x", "y", "z")}}}
	container := v1.Container{Name: "main", Image: pick("example.com/a:1", "example.com/b:1", "example.com/c:1")}
	container.Resources.Requests = v1.ResourceList{}
	if random.IntN(5) > 0 {
		container.Resources.Requests["cpu"] = resource.MustParse(pick("100m", "250m", "500m", "1", "2", "3"))
	}
	if random.IntN(5) > 0 {
		container.Resources.Requests["memory"] = resource.MustParse(pick("64Mi", "200Mi", "1Gi", "3Gi", "5Gi"))
	}
	pod.Spec.Containers = []v1.Container{container}
	if random.IntN(3) == 0 {
		pod.Spec.Tolerations = []v1.Toleration{{Key: "team", Operator: v1.TolerationOpEqual, Value: pick("red", "blue")}}
	}
	if random.IntN(4) == 0 {
		pod.Spec.NodeSelector = map[string]string{"disk": pick("ssd", "hdd")}
	}
	term := func(key string, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}}}
	}
	affinity := &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
	switch random.IntN(4) {
	case 0:
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term("pool", "a", "b")}}
		pod.Spec.Affinity = affinity
	case 1:
		affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{
			{Weight: 30, Preference: term("pool", pick("a", "b", "c"))}, {Weight: 10, Preference: term("disk", "ssd")},
		}
		pod.Spec.Affinity = affinity
	case 2:
		same := v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}, TopologyKey: pick("pool", v1.LabelHostname)}
		affinity.PodAntiAffinity = &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 20, PodAffinityTerm: same}}}
		pod.Spec.Affinity = affinity
	}
	if random.IntN(4) == 0 {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 2, TopologyKey: "pool", WhenUnsatisfiable: v1.UnsatisfiableConstraintAction(pick("DoNotSchedule", "ScheduleAnyway")),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
	return pod
}
