// SPDX-License-Identifier: Apache-2.0

package nodestatus_test

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
	"github.com/keelson-dev/keelson/internal/clienttest"
)

// Example registers a node while its runtime does not answer.
func Example() {
	nodes := clienttest.New().CoreV1().Nodes() // in a program: kubernetes.NewForConfig
	reporter, err := nodestatus.New(nodestatus.Options{
		NodeName: "gateway-17",
		Nodes:    nodes,
		Facts: func(context.Context) nodestatus.Facts {
			return nodestatus.Facts{
				NotReady: errors.New("containerd does not answer"),
				Capacity: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
			}
		},
		Labels: map[string]string{"example.com/site": "north"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := reporter.Report(ctx); err != nil { // Run repeats this step
		fmt.Println(err)
		return
	}
	node, err := nodes.Get(ctx, "gateway-17", metav1.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Name, node.Labels["example.com/site"], node.Status.Capacity.Cpu())
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			fmt.Println(c.Type, c.Status, c.Reason+":", c.Message)
		}
	}
	// Output:
	// gateway-17 north 2
	// Ready False KubeletNotReady: containerd does not answer
}
