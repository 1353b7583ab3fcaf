// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// CheckSystem returns what no change of other pods can help: a wrong operating
// system and forbidden sysctls.
func CheckSystem(node *Node, pod *v1.Pod) (failures []Failure) {
	if label, ok := pod.Labels[v1.LabelOSStable]; ok && node.OS != "" && label != node.OS {
		failures = append(failures, Failure{Reason: ReasonOSSelector, Message: messageOSSelector})
	}
	if pod.Spec.OS != nil && node.OS != "" && string(pod.Spec.OS.Name) != node.OS {
		failures = append(failures, Failure{Reason: ReasonOS, Message: messageOS})
	}
	if err := checkSysctls(node, pod); err != nil {
		failures = append(failures, Failure{Reason: ReasonSysctl, Message: "forbidden sysctl: " + err.Error()})
	}
	return failures
}

// Check returns what stands in the way of a pod besides CheckSystem, beside the
// pods that are active already; own may be among those. Nothing: it is admitted.
func Check(node *Node, active []*Demand, own *Demand) (failures []Failure) {
	for _, short := range fits(node, active, own) {
		failures = append(failures, Failure{
			Reason:   ReasonOutOf + string(short.Resource),
			Message:  fmt.Sprintf(messageNodeResources, short.Resource, short.Requested, short.Used, short.Capacity),
			Shortage: &short,
		})
	}
	pod := own.Pod
	if !matchesNode(pod, node) {
		failures = append(failures, Failure{Reason: ReasonNodeAffinity, Message: messageNodeAffinity})
	}
	if pod.Spec.NodeName != "" && node.Name != "" && pod.Spec.NodeName != node.Name {
		failures = append(failures, Failure{Reason: ReasonNodeName, Message: messageNodeName})
	}
	if portsTaken(active, own) {
		failures = append(failures, Failure{Reason: ReasonNodePorts, Message: messageNodePorts})
	}
	if !podconfig.IsStatic(pod) && !toleratesAll(pod, node.Taints) {
		failures = append(failures, Failure{Reason: ReasonTaint, Message: messageTaint})
	}
	return failures
}

// fits returns what the node has too little of.
func fits(node *Node, active []*Demand, own *Demand) (short []Shortage) {
	if node.Allocatable == nil {
		return nil
	}
	if most, ok := node.Allocatable[v1.ResourcePods]; ok {
		n := int64(0)
		for _, d := range active {
			if d.Pod.UID != own.Pod.UID {
				n++
			}
		}
		if n+1 > most.Value() {
			short = append(short, Shortage{Resource: v1.ResourcePods, Requested: 1, Used: n, Capacity: most.Value()})
		}
	}
	for _, a := range own.amounts {
		capacity, limited := node.capacity(a.name)
		if !limited {
			continue
		}
		used := used(active, own, a.name)
		if a.value > capacity-used {
			short = append(short, Shortage{Resource: a.name, Requested: a.value, Used: used, Capacity: capacity})
		}
	}
	return short
}

// used is how much of a resource the other pods ask for.
func used(active []*Demand, own *Demand, name v1.ResourceName) (sum int64) {
	for _, d := range active {
		if d.Pod.UID != own.Pod.UID {
			sum += d.Of(name)
		}
	}
	return sum
}

// capacity is how much of a resource there is, and whether that is a limit.
func (n *Node) capacity(name v1.ResourceName) (amount int64, limited bool) {
	if q, ok := n.Allocatable[name]; ok {
		return count(name, q), true
	}
	switch {
	case name == v1.ResourceCPU, name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage:
		return 0, false
	case isExtended(name): // of the cluster, or of nobody
		return 0, false
	}
	return 0, true
}
