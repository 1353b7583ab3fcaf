// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/examples/simulation/cluster"
)

// An example runs in real time; a test runs the same in a bubble of testing/synctest.
func ExampleCluster() {
	root, err := os.MkdirTemp("", "cluster")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(root) }()
	node := &v1.Node{}
	node.Name = "node-7"
	c, err := cluster.New(cluster.Options{Nodes: []*v1.Node{node}, Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	running := make(chan v1.PodPhase, 100)
	c.Server().Watch(func(pod *v1.Pod) { running <- pod.Status.Phase })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	pod := nodetest.Pod("web", nodetest.Container("c"))
	pod.Spec.NodeName = "node-7"
	c.Server().Create(pod)
	for phase := range running {
		if phase == v1.PodRunning {
			fmt.Println("web is", phase)
			break
		}
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// web is Running
	// <nil>
}
