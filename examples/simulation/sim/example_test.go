// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
)

// Three pods of a minute share a node with room for two pods.
func Example() {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("10")}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("1")}
	shape, err := sim.NewShape(pod, sim.GPURequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var work sim.Arrivals
	for i := range 3 {
		work = append(work, sim.Arrival{Name: fmt.Sprintf("pod-%d", i), Shape: shape, Duration: time.Minute})
	}
	s, err := sim.New(sim.Options{Nodes: []*v1.Node{node}, Workload: work, Profile: kube.Profile()})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := s.Run(context.Background())
	fmt.Println(report.Succeeded, report.Makespan, report.Wait.Max, err)
	// Output: 3 2m0s 60 <nil>
}
