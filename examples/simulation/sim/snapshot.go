// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Snapshot is the scheduler's view of all nodes and of the pods on them. It is mutable, and Rollback
// undoes all changes since a Mark: a trial on a Snapshot costs as much as its changes, whatever the
// number of nodes. A Snapshot is for a single goroutine.
type Snapshot struct {
	nodes  []*Node
	byName map[string]*Node
	gen    uint64
	log    []int32 // indices of changed nodes, in order
	undo   []change
	trials int // open Marks
	images map[string]int
	terms  int // pods with Shape.terms
	pods   int
}

// change is a step that Rollback reverses.
type change struct {
	pod     *Pod
	node    *Node
	added   bool
	devices []int
	slot    int
}

// Mark is a state of a Snapshot to return to.
type Mark int

// NewSnapshot returns a Snapshot without pods. Its order of nodes is that of kube-scheduler: the
// first node of each zone, then the second node of each zone, and so on.
func NewSnapshot(nodes []*v1.Node) (*Snapshot, error) {
	s := &Snapshot{byName: make(map[string]*Node, len(nodes)), images: map[string]int{}}
	var zones []string
	byZone := map[string][]*Node{}
	for i, node := range nodes {
		n, err := newNode(node)
		if err != nil {
			return nil, fmt.Errorf("nodes[%d]: %w", i, err)
		}
		if s.byName[n.Name] != nil {
			return nil, fmt.Errorf("nodes[%d]: a second node is named %q", i, n.Name)
		}
		s.byName[n.Name] = n
		zone := zoneOf(node)
		if byZone[zone] == nil {
			zones = append(zones, zone)
		}
		byZone[zone] = append(byZone[zone], n)
		for image := range n.Images {
			s.images[image]++
		}
	}
	for round := 0; len(s.nodes) < len(nodes); round++ {
		for _, zone := range zones {
			if round < len(byZone[zone]) {
				n := byZone[zone][round]
				n.index = len(s.nodes)
				s.nodes = append(s.nodes, n)
			}
		}
	}
	return s, nil
}

// zoneOf returns the key of a node's zone, "" without labels.
func zoneOf(node *v1.Node) string {
	region, zone := node.Labels[v1.LabelTopologyRegion], node.Labels[v1.LabelTopologyZone]
	if region == "" && zone == "" {
		return ""
	}
	return region + ":\x00:" + zone
}

// Nodes returns the nodes in the order of scheduling. The caller does not write to the slice.
func (s *Snapshot) Nodes() []*Node { return s.nodes }

// Node returns the named node, or nil.
func (s *Snapshot) Node(name string) *Node { return s.byName[name] }

// Pods returns the number of pods on all nodes.
func (s *Snapshot) Pods() int { return s.pods }

// HasTerms reports whether any pod has inter-pod affinity or anti-affinity.
func (s *Snapshot) HasTerms() bool { return s.terms > 0 }

// NodesWith returns the number of nodes with an image.
func (s *Snapshot) NodesWith(image string) int { return s.images[image] }

// Assume puts a pod on a node. devices are the indices of the pod's GPUs.
func (s *Snapshot) Assume(p *Pod, n *Node, devices []int) {
	p.Node, p.Devices, p.slot = n, devices, len(n.Pods)
	n.Pods = append(n.Pods, p)
	s.apply(p, n, 1)
	if s.trials > 0 {
		s.undo = append(s.undo, change{pod: p, node: n, added: true})
	}
}

// Forget takes a pod from its node. A pod without a node is left alone.
func (s *Snapshot) Forget(p *Pod) {
	n := p.Node
	if n == nil {
		return
	}
	s.apply(p, n, -1)
	if s.trials > 0 {
		s.undo = append(s.undo, change{pod: p, node: n, devices: p.Devices, slot: p.slot})
	}
	n.remove(p)
	p.Node, p.Devices = nil, nil
}

// remove takes a pod from the list, and moves the last pod to its slot.
func (n *Node) remove(p *Pod) {
	last := n.Pods[len(n.Pods)-1]
	n.Pods[p.slot], last.slot = last, p.slot
	n.Pods[len(n.Pods)-1] = nil
	n.Pods = n.Pods[:len(n.Pods)-1]
}

// apply counts a pod that comes or goes.
func (s *Snapshot) apply(p *Pod, n *Node, sign int64) {
	n.take(p, sign)
	s.pods += int(sign)
	if p.Shape.terms {
		s.terms += int(sign)
	}
	s.touch(n)
}

// touch notes a change of a node.
func (s *Snapshot) touch(n *Node) {
	s.gen++
	n.gen = s.gen
	s.log = append(s.log, int32(n.index))
}

// Begin marks the present state. Each Begin needs a Rollback, in reverse order.
func (s *Snapshot) Begin() Mark {
	s.trials++
	return Mark(len(s.undo))
}

// Rollback undoes all changes since the mark.
func (s *Snapshot) Rollback(m Mark) {
	for _, c := range slices.Backward(s.undo[m:]) {
		if c.added {
			s.apply(c.pod, c.node, -1)
			c.node.remove(c.pod)
			c.pod.Node, c.pod.Devices = nil, nil
			continue
		}
		c.pod.Node, c.pod.Devices, c.pod.slot = c.node, c.devices, c.slot
		pods := append(c.node.Pods, c.pod)
		if last := len(pods) - 1; c.slot != last {
			pods[last], pods[c.slot] = pods[c.slot], c.pod
			pods[last].slot = last
		}
		c.node.Pods = pods
		s.apply(c.pod, c.node, 1)
	}
	clear(s.undo[m:])
	s.undo = s.undo[:m]
	s.trials--
}

// SetTaints replaces the taints of a node.
func (s *Snapshot) SetTaints(n *Node, taints []v1.Taint) {
	n.Taints = taints
	s.touch(n)
}

// SetReady notes whether the node is reachable.
func (s *Snapshot) SetReady(n *Node, ready bool) {
	n.Ready = ready
	s.touch(n)
}

// AddImage notes an image on a node, and reports whether the image is new there.
func (s *Snapshot) AddImage(n *Node, image string, size int64) bool {
	if _, has := n.Images[image]; has {
		return false
	}
	n.Images[image] = size
	s.images[image]++
	return true
}
