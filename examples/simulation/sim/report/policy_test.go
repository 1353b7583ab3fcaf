// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"context"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/report"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// fewest is a policy: it prefers nodes with few pods.
type fewest struct{}

func (fewest) Name() string                          { return "fewest" }
func (fewest) Local()                                {} // depends on the pod's shape and the node alone
func (fewest) Score(_ *sim.Cycle, n *sim.Node) int64 { return -int64(len(n.Pods)) }

// A policy of one's own beside kube-scheduler's, on the same workload.
func ExampleWriteHTML() {
	node := func(name string) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
		return n
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("1")}
	shape, err := sim.NewShape(pod, sim.GPURequest{})
	work := workload.Poisson{Seed: 1, Jobs: 100, Every: 10 * time.Second, Mean: time.Minute, Shapes: []*sim.Shape{shape}}
	mine := sim.Profile{Name: "fewest", Filter: []sim.Filter{kube.Fit{}}, Score: []sim.WeightedScore{{Score: fewest{}}}}
	var runs []*sim.Report
	for _, profile := range []sim.Profile{kube.Profile(), mine} {
		s, wrong := sim.New(sim.Options{Nodes: []*v1.Node{node("a"), node("b")}, Workload: work, Profile: profile, Seed: 1})
		if err != nil || wrong != nil {
			fmt.Println(err, wrong)
			return
		}
		r, _ := s.Run(context.Background())
		runs = append(runs, r)
		fmt.Println(r.Name, r.Succeeded)
	}
	fmt.Println(report.WriteHTML(io.Discard, runs...))
	// Output:
	// kube 100
	// fewest 100
	// <nil>
}
