// SPDX-License-Identifier: Apache-2.0

package fwk_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/fwk"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// fewest is a plug-in of kube-scheduler: it prefers nodes with few pods.
type fewest struct{}

func newFewest(context.Context, apiruntime.Object, framework.Handle) (framework.Plugin, error) {
	return fewest{}, nil
}

func (fewest) Name() string { return "Fewest" }
func (fewest) Score(_ context.Context, _ framework.CycleState, _ *v1.Pod, n framework.NodeInfo) (int64, *framework.Status) {
	return framework.MaxScore - int64(len(n.GetPods())), nil
}
func (fewest) ScoreExtensions() framework.ScoreExtensions { return nil }

func Example() {
	ctx := context.Background()
	scheduler, err := fwk.New(ctx, fwk.Options{Plugins: []fwk.Plugin{{New: newFewest}}})
	if err != nil {
		panic(err)
	}
	shape, err := sim.NewShape(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}, sim.GPURequest{})
	if err != nil {
		panic(err)
	}
	s, err := sim.New(sim.Options{
		Nodes: []*v1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		},
		Workload: sim.Arrivals{{Name: "p", Shape: shape}, {Name: "q", Shape: shape}, {Name: "r", Shape: shape}},
		Profile:  scheduler.Profile(),
	})
	if err != nil {
		panic(err)
	}
	for e, more := s.Step(); more; e, more = s.Step() {
		if e.Kind == sim.Bound {
			fmt.Println(e.Pod.Name, "on", e.Node.Name)
		}
	}
	fmt.Println(s.Err(), scheduler.Err())
	// Output:
	// p on a
	// q on b
	// r on a
	// <nil> <nil>
}
