// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
)

type edit func(*v1.Pod)

// pod returns a pod of the app "a" that requests cpu.
func pod(cpu string, edits ...edit) *sim.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}
	for _, e := range edits {
		e(p)
	}
	s, err := sim.NewShape(p, sim.GPURequest{})
	if err != nil {
		return nil
	}
	return &sim.Pod{Shape: s}
}

// node returns a node with 4 cores and 8 GiB in a zone.
func node(name, zone string, edits ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelTopologyZone: zone, v1.LabelHostname: name}}}
	n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("3")}
	for _, e := range edits {
		e(n)
	}
	return n
}

var app = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}

func spread(skew int32, min *int32) edit {
	return func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
			MaxSkew: skew, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: app, MinDomains: min,
		})
	}
}

func softSpread(p *v1.Pod) {
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: app}}
}

func affinity(anti, required bool) edit {
	term := v1.PodAffinityTerm{TopologyKey: v1.LabelTopologyZone, LabelSelector: app}
	weighted := []v1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: term}}
	return func(p *v1.Pod) {
		a, b := &v1.PodAffinity{}, &v1.PodAntiAffinity{}
		if required {
			a.RequiredDuringSchedulingIgnoredDuringExecution, b.RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term}, []v1.PodAffinityTerm{term}
		} else {
			a.PreferredDuringSchedulingIgnoredDuringExecution, b.PreferredDuringSchedulingIgnoredDuringExecution = weighted, weighted
		}
		p.Spec.Affinity = &v1.Affinity{PodAffinity: a}
		if anti {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: b}
		}
	}
}

func port(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }

func taint(effect v1.TaintEffect) func(*v1.Node) {
	return func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: effect}} }
}

func priority(value int32) edit { return func(p *v1.Pod) { p.Spec.Priority = &value } }

func selector(name string) edit {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: name} }
}

// placed is a pod on a node.
type placed struct {
	node string
	pod  *sim.Pod
}

// TestDecisions places a pod among others by the default profile.
func TestDecisions(t *testing.T) {
	ten := int32(10)
	big := func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: []string{"x"}, SizeBytes: 900 << 20}} }
	image := func(p *v1.Pod) { p.Spec.Containers[0].Image = "x" }
	for name, tc := range map[string]struct {
		nodes  []*v1.Node
		others []placed
		pod    *sim.Pod
		want   string // node, or the reasons
	}{
		"the emptier node":     {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"a", pod("1")}}, pod: pod("1"), want: "b"},
		"too large":            {nodes: []*v1.Node{node("a", "1")}, pod: pod("5"), want: "1 Insufficient cpu"},
		"too many":             {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("1")}, {"a", pod("1")}, {"a", pod("1")}}, pod: pod("1"), want: "1 Too many pods"},
		"no room":              {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("3")}}, pod: pod("2"), want: "1 Insufficient cpu"},
		"taint":                {nodes: []*v1.Node{node("a", "1", taint(v1.TaintEffectNoSchedule)), node("b", "2")}, others: []placed{{"b", pod("3")}}, pod: pod("1"), want: "b"},
		"soft taint":           {nodes: []*v1.Node{node("a", "1", taint(v1.TaintEffectPreferNoSchedule)), node("b", "2")}, others: []placed{{"b", pod("1")}}, pod: pod("1"), want: "b"},
		"cordoned":             {nodes: []*v1.Node{node("a", "1", func(n *v1.Node) { n.Spec.Unschedulable = true })}, pod: pod("1"), want: "1 node(s) were unschedulable"},
		"selector":             {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"a", pod("3")}}, pod: pod("1", selector("a")), want: "a"},
		"selector of no node":  {nodes: []*v1.Node{node("a", "1")}, pod: pod("1", selector("z")), want: "1 node(s) didn't match Pod's node affinity/selector"},
		"node name":            {nodes: []*v1.Node{node("a", "1"), node("b", "1")}, pod: pod("1", func(p *v1.Pod) { p.Spec.NodeName = "b" }), want: "b"},
		"host port":            {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"a", pod("1", port)}, {"b", pod("3")}}, pod: pod("1", port), want: "b"},
		"host port everywhere": {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("1", port)}}, pod: pod("1", port), want: "1 node(s) didn't have free ports for the requested pod ports"},
		"spread":               {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"a", pod("1")}, {"b", pod("3", func(p *v1.Pod) { p.Labels = nil })}}, pod: pod("1", spread(1, nil)), want: "b"},
		"spread, few domains":  {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("1")}}, pod: pod("1", spread(1, &ten)), want: "1 node(s) didn't match pod topology spread constraints"},
		"soft spread":          {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"a", pod("100m")}, {"b", pod("500m", func(p *v1.Pod) { p.Labels = nil })}}, pod: pod("1", softSpread), want: "b"},
		"affinity":             {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"b", pod("1")}}, pod: pod("1", affinity(false, true)), want: "b"},
		"affinity, first pod":  {nodes: []*v1.Node{node("a", "1")}, pod: pod("1", affinity(false, true)), want: "a"},
		"affinity, other app": {nodes: []*v1.Node{node("a", "1")}, pod: pod("1", affinity(false, true), func(p *v1.Pod) { p.Labels = nil }),
			want: "1 node(s) didn't match pod affinity rules"},
		"anti-affinity":             {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("1")}}, pod: pod("1", affinity(true, true)), want: "1 node(s) didn't match pod anti-affinity rules"},
		"anti-affinity of another":  {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("1", affinity(true, true))}}, pod: pod("1"), want: "1 node(s) didn't satisfy existing pods anti-affinity rules"},
		"preferred affinity":        {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"b", pod("100m")}}, pod: pod("1", affinity(false, false)), want: "b"},
		"preferred anti-affinity":   {nodes: []*v1.Node{node("a", "1"), node("b", "2")}, others: []placed{{"a", pod("100m")}, {"b", pod("500m", func(p *v1.Pod) { p.Labels = nil })}}, pod: pod("1", affinity(true, false)), want: "b"},
		"image":                     {nodes: []*v1.Node{node("a", "1"), node("b", "2", big)}, pod: pod("1", image), want: "b"},
		"no victim is worth a node": {nodes: []*v1.Node{node("a", "1")}, others: []placed{{"a", pod("3")}}, pod: pod("5", priority(1)), want: "1 Insufficient cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sim.NewSnapshot(tc.nodes)
			require.NoError(t, err)
			for _, o := range tc.others {
				s.Assume(o.pod, s.Node(o.node), nil)
			}
			d, err := sim.NewScheduler(s, kube.Profile(), rand.New(rand.NewPCG(1, 1)))
			require.NoError(t, err)
			found := d.Decide(tc.pod, 0)
			if found.Node != nil {
				assert.Equal(t, tc.want, found.Node.Name)
				return
			}
			assert.Equal(t, fmt.Sprintf("0/%d nodes are available: %s.", len(tc.nodes), tc.want), d.Explain(tc.pod, found))
		})
	}
}

// TestVictims: preemption takes the fewest and least important pods, and leaves no trace on the
// Snapshot.
func TestVictims(t *testing.T) {
	s, err := sim.NewSnapshot([]*v1.Node{node("a", "1"), node("b", "1")})
	require.NoError(t, err)
	low, middle, small := pod("3"), pod("3", priority(5)), pod("1")
	s.Assume(small, s.Node("a"), nil)
	s.Assume(low, s.Node("a"), nil)
	s.Assume(middle, s.Node("b"), nil)
	d, err := sim.NewScheduler(s, kube.Profile(), rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, err)
	found := d.Decide(pod("2", priority(9)), 0)
	assert.Nil(t, found.Node)
	require.NotNil(t, found.Post.Nominated)
	assert.Equal(t, "a", found.Post.Nominated.Name)
	assert.Equal(t, []*sim.Pod{low}, found.Post.Victims)
	assert.Equal(t, 3, s.Pods())
	assert.EqualValues(t, 4000, s.Node("a").Requested.CPU)
}

func ExampleProfile() {
	p := kube.Profile()
	for _, s := range p.Score {
		fmt.Println(s.Name(), s.Weight)
	}
	// Output:
	// TaintToleration 3
	// NodeAffinity 2
	// NodeResourcesFit 1
	// PodTopologySpread 2
	// InterPodAffinity 2
	// NodeResourcesBalancedAllocation 1
	// ImageLocality 1
}
