// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

// LabelGPUModel is the label of a node with the model of its GPUs, and LabelGPUs the extended
// resource with their number.
const (
	LabelGPUModel                 = "simulation.keelson.dev/gpu-model"
	LabelGPUs     v1.ResourceName = "simulation.keelson.dev/gpus"
)

// Node is a node as the scheduler sees it. A Snapshot writes the fields; plug-ins read them.
type Node struct {
	Name string
	// Object is the node of Options.Nodes. The simulation changes neither its taints nor its images.
	Object *v1.Node
	// Facts has the labels, for selectors and affinities.
	Facts         *admission.Node
	Taints        []v1.Taint
	Unschedulable bool
	Allocatable   Resources
	MaxPods       int
	// Requested is the sum of the requests, and NonZero the sum of Shape.NonZero.
	Requested, NonZero Resources
	Pods               []*Pod
	// Model is the model of the GPUs. GPUs has the thousandths left on each.
	Model string
	GPUs  []int64
	// Images are the sizes of the images on the node.
	Images map[string]int64
	// Ready is false while the node is lost.
	Ready bool

	index int    // in Snapshot.nodes
	gen   uint64 // of the last change
	terms int    // pods with Shape.terms
	ports int    // pods with Shape.Ports
}

// Index returns the position of the node in Snapshot.Nodes.
func (n *Node) Index() int { return n.index }

// Generation returns a number that grows with each change of any node.
func (n *Node) Generation() uint64 { return n.gen }

// HasTerms reports whether a pod of the node has inter-pod affinity or anti-affinity.
func (n *Node) HasTerms() bool { return n.terms > 0 }

// HasPorts reports whether a pod of the node has host ports.
func (n *Node) HasPorts() bool { return n.ports > 0 }

// GPULeft returns the sum of the thousandths left on all GPUs.
func (n *Node) GPULeft() (left int64) {
	for _, milli := range n.GPUs {
		left += milli
	}
	return left
}

// newNode reads a node. Each of its GPUs is free.
func newNode(node *v1.Node) (*Node, error) {
	if node == nil || node.Name == "" {
		return nil, errors.New("a node has no name")
	}
	n := &Node{
		Name: node.Name, Object: node, Ready: true,
		Facts:         &admission.Node{Name: node.Name, Labels: node.Labels},
		Taints:        slices.Clone(node.Spec.Taints),
		Unschedulable: node.Spec.Unschedulable,
		Allocatable:   ResourcesOf(node.Status.Allocatable),
		MaxPods:       110,
		Model:         node.Labels[LabelGPUModel],
		Images:        map[string]int64{},
	}
	if pods, ok := node.Status.Allocatable[v1.ResourcePods]; ok {
		n.MaxPods = int(pods.Value())
	}
	n.GPUs = slices.Repeat([]int64{1000}, int(n.Allocatable.Of(LabelGPUs)))
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			n.Images[tagged(name)] = image.SizeBytes
		}
	}
	return n, nil
}

// take changes the sums of the node by a pod that comes (sign 1) or goes (sign -1).
func (n *Node) take(p *Pod, sign int64) {
	n.Requested.add(&p.Shape.Requests, sign)
	n.NonZero.add(&p.Shape.NonZero, sign)
	for _, i := range p.Devices {
		n.GPUs[i] -= sign * p.Shape.GPU.Milli
	}
	if p.Shape.terms {
		n.terms += int(sign)
	}
	if len(p.Shape.Ports) > 0 {
		n.ports += int(sign)
	}
}
