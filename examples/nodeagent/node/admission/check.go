// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/podconfig"
)

// CheckSystem returns the failures that do not depend on other pods: a wrong operating system and
// forbidden sysctls.
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

// Check returns all other failures of a pod on a node with other active pods, whose demands used
// sums. An empty result admits the pod.
func Check(node *Node, used *Usage, own *Demand) (failures []Failure) {
	for _, short := range fits(node, used, own) {
		failures = append(failures, Failure{
			Reason:   ReasonOutOf + string(short.Resource),
			Message:  fmt.Sprintf(messageNodeResources, short.Resource, short.Requested, short.Used, short.Capacity),
			Shortage: &short,
		})
	}
	pod := own.Pod
	if !MatchesNode(pod, node) {
		failures = append(failures, Failure{Reason: ReasonNodeAffinity, Message: messageNodeAffinity})
	}
	if pod.Spec.NodeName != "" && node.Name != "" && pod.Spec.NodeName != node.Name {
		failures = append(failures, Failure{Reason: ReasonNodeName, Message: messageNodeName})
	}
	if slices.ContainsFunc(own.ports, used.isTaken) {
		failures = append(failures, Failure{Reason: ReasonNodePorts, Message: messageNodePorts})
	}
	if !podconfig.IsStatic(pod) && !toleratesAll(pod, node.Taints) {
		failures = append(failures, Failure{Reason: ReasonTaint, Message: messageTaint})
	}
	return failures
}

// fits returns the resources that the node lacks for own.
func fits(node *Node, used *Usage, own *Demand) (short []Shortage) {
	if most, ok := node.Allocatable[v1.ResourcePods]; ok {
		n := used.amounts[v1.ResourcePods]
		if n+1 > most.Value() {
			short = append(short, Shortage{Resource: v1.ResourcePods, Requested: 1, Used: n, Capacity: most.Value()})
		}
	}
	for _, a := range own.amounts {
		capacity, limited := node.capacity(a.name)
		unpromised := podresources.IsExtended(a.name) && podconfig.IsStatic(own.Pod) // no scheduler has checked the request
		if !limited && !unpromised || podresources.IsExtended(a.name) && node.Assigned != nil && node.Assigned(a.name) {
			continue
		}
		if n := used.amounts[a.name]; a.value > capacity-n {
			short = append(short, Shortage{Resource: a.name, Requested: a.value, Used: n, Capacity: capacity})
		}
	}
	return short
}

// capacity returns the node's amount of a resource, and whether requests are limited by it.
func (n *Node) capacity(name v1.ResourceName) (amount int64, limited bool) {
	if q, ok := n.Allocatable[name]; ok {
		return count(name, q), true
	}
	switch {
	case n.Allocatable == nil: // a node without any limit
		return 0, false
	case name == v1.ResourceCPU, name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage:
		return 0, false
	case podresources.IsExtended(name): // an extended resource of the cluster, checked by the scheduler
		return 0, false
	}
	return 0, true
}
