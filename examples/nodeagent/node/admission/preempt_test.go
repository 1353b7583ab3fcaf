// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

func guaranteed(amounts string) edit {
	return func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: list(amounts), Limits: list(amounts)}})
	}
}

func TestPreempt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		node   string
		active []*v1.Pod
		pod    *v1.Pod
		want   []string
		none   bool
	}{
		{name: "the one that frees enough", node: "cpu=4", pod: pod("p", static, asks("cpu=2")),
			active: []*v1.Pod{pod("small", asks("cpu=1")), pod("big", asks("cpu=3"))}, want: []string{"big"}},
		{name: "the smaller of two that do", node: "cpu=5", pod: pod("p", static, asks("cpu=1")),
			active: []*v1.Pod{pod("big", asks("cpu=3")), pod("small", asks("cpu=2"))}, want: []string{"small"}},
		{name: "burstable before guaranteed", node: "cpu=4 memory=4", pod: pod("p", static, asks("cpu=2")),
			active: []*v1.Pod{pod("sure", guaranteed("cpu=2 memory=1")), pod("burst", asks("cpu=2"))}, want: []string{"burst"}},
		{name: "the less important of two", node: "cpu=4", pod: pod("p", static, asks("cpu=2")),
			active: []*v1.Pod{pod("more", asks("cpu=2"), withPriority(10)), pod("less", asks("cpu=2"), withPriority(1))}, want: []string{"less"}},
		{name: "best effort for a place", node: "pods=2", pod: pod("p", static),
			active: []*v1.Pod{pod("burst", asks("cpu=1")), pod("best")}, want: []string{"best"}},
		{name: "never another static pod", node: "cpu=2", pod: pod("p", static, asks("cpu=2")),
			active: []*v1.Pod{pod("s", static, asks("cpu=2"))}, none: true},
		{name: "unless its priority is lower", node: "cpu=2", pod: pod("p", static, asks("cpu=2"), withPriority(2)),
			active: []*v1.Pod{pod("s", static, asks("cpu=2"), withPriority(1))}, want: []string{"s"}},
		{name: "not for what does not fit at all", node: "cpu=2", pod: pod("p", static, asks("cpu=3")),
			active: []*v1.Pod{pod("a", asks("cpu=2"))}, none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			own, active := admission.DemandOf(tt.pod), demands(tt.active...)
			node := &admission.Node{Allocatable: list(tt.node)}
			failures := admission.Check(node, admission.UsageOf(active...), own)
			require.NotEmpty(t, failures)
			victims, refused := admission.MakeRoom(node, own, failures, slices.Values(active))
			require.Equal(t, tt.none, len(refused) > 0)
			require.Equal(t, tt.want, names(victims))
		})
	}
}

// After preemption the pod fits. No pod of equal importance is preempted, no pod is preempted in
// vain, and guaranteed pods are preempted only if other pods do not suffice.
func TestPreemptionMakesRoom(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	node := &admission.Node{Allocatable: list("cpu=20 memory=20 pods=8")}
	preempted, hopeless := 0, 0
	for range 2000 {
		var pods []*v1.Pod
		for i := range random.IntN(9) {
			amounts := fmt.Sprintf("cpu=%d memory=%d", random.IntN(5), random.IntN(5))
			kind := []edit{asks(amounts), guaranteed(fmt.Sprintf("cpu=%d memory=%d", 1+random.IntN(5), 1+random.IntN(5))), asks("")}[random.IntN(3)]
			p := pod(fmt.Sprint(i), kind, withPriority(random.Int32N(3)))
			if random.IntN(4) == 0 {
				static(p)
			}
			pods = append(pods, p)
		}
		own := admission.DemandOf(pod("p", static, withPriority(1), asks(fmt.Sprintf("cpu=%d memory=%d", random.IntN(22), random.IntN(22)))))
		failures := admission.Check(node, usage(pods...), own)
		if len(failures) == 0 {
			continue
		}
		victims, refused := admission.MakeRoom(node, own, failures, slices.Values(demands(pods...)))
		gone := map[*v1.Pod]bool{}
		for _, v := range victims {
			require.True(t, own.MayPreempt(admission.DemandOf(v)))
			gone[v] = true
		}
		var stay, others, dear []*v1.Pod // others: all that cannot be ended; dear: and those that are guaranteed
		for _, p := range pods {
			sure := p.Spec.Containers[0].Resources.Limits != nil
			switch {
			case !own.MayPreempt(admission.DemandOf(p)):
				others, dear = append(others, p), append(dear, p)
			case sure:
				dear = append(dear, p)
			}
			if !gone[p] {
				stay = append(stay, p)
			}
		}
		if len(refused) > 0 {
			hopeless++
			require.NotEmpty(t, admission.Check(node, usage(others...), own), "there was room to be made")
			continue
		}
		preempted++
		require.NotEmpty(t, victims)
		require.Empty(t, admission.Check(node, usage(stay...), own))
		if len(admission.Check(node, usage(dear...), own)) == 0 {
			for v := range gone {
				require.Nil(t, v.Spec.Containers[0].Resources.Limits, "guaranteed pods ended for nothing")
			}
		}
	}
	require.Greater(t, preempted, 100)
	require.Greater(t, hopeless, 100)
}

// No pod is preempted for a pod that is not critical, or that has another obstacle than resources, and
// none if the pods that are ending free enough.
func TestNoPodIsPreemptedInVain(t *testing.T) {
	active := demands(pod("a", asks("cpu=2")))
	for _, tt := range []struct {
		name    string
		pod     *v1.Pod
		staying []*admission.Demand
		refused []string
	}{
		{name: "not critical", pod: pod("p", asks("cpu=2")), staying: active, refused: []string{"OutOfcpu"}},
		{name: "another node", pod: pod("p", static, asks("cpu=2"), func(p *v1.Pod) { p.Spec.NodeName = "other" }), staying: active,
			refused: []string{"OutOfcpu", "NodeName"}},
		{name: "room comes", pod: pod("p", static, asks("cpu=2"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &admission.Node{Name: "n", Allocatable: list("cpu=2")}
			own := admission.DemandOf(tt.pod)
			victims, refused := admission.MakeRoom(node, own, admission.Check(node, admission.UsageOf(active...), own), slices.Values(tt.staying))
			require.Empty(t, victims)
			require.Equal(t, tt.refused, reasons(refused))
		})
	}
}
