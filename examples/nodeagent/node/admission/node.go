// SPDX-License-Identifier: Apache-2.0

package admission

import (
	v1 "k8s.io/api/core/v1"
)

// Node describes the node to which pods are admitted. The package does not modify a Node.
type Node struct {
	// Name is the node's name. "" matches every pod's nodeName.
	Name string
	// OS is the node's operating system, a value of GOOS. "" matches every pod's operating system.
	OS string
	// Labels are the node's labels. They should include the labels of the operating system.
	Labels map[string]string
	// Taints are the node's taints. Only taints with the effect NoExecute are checked.
	Taints []v1.Taint
	// Allocatable is the sum of resources that pods may request; "pods" is the number of pods. The
	// package comment describes resources that are missing here.
	Allocatable v1.ResourceList
	// UnsafeSysctls are the names of sysctls that pods may set in addition to the safe sysctls. A
	// "*" at the end of a name matches any suffix.
	UnsafeSysctls []string
	// Assigned reports whether another part of the node counts an extended resource. Check does not
	// count such a resource. Defaults to nil: Check counts every resource.
	Assigned func(v1.ResourceName) bool
}

// ReasonUnsupported is the reason of a pod with fields that the node cannot honour. It is a reason
// of this node only.
const ReasonUnsupported = "UnsupportedPodSpec"

// Reasons and messages of failures, as in the kubelet (1.36). The reason of a missing resource is
// ReasonOutOf followed by the resource name, such as "OutOfcpu".
const (
	ReasonOutOf          = "OutOf"
	ReasonNodeAffinity   = "NodeAffinity"
	ReasonNodeName       = "NodeName"
	ReasonNodePorts      = "NodePorts"
	ReasonTaint          = "TaintToleration"
	ReasonOS             = "PodOSNotSupported"
	ReasonOSSelector     = "PodOSSelectorNodeLabelDoesNotMatch"
	ReasonSysctl         = "SysctlForbidden"
	ReasonPreempted      = "Preempting"
	MessagePreempted     = "Preempted in order to admit critical pod"
	messageNodeAffinity  = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
	messageNodeName      = "Predicate NodeName failed: node(s) didn't match the requested node name"
	messageNodePorts     = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
	messageTaint         = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
	messageOS            = "Failed to admit pod as the OS field doesn't match node OS"
	messageOSSelector    = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
	messageNodeResources = "Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d"
)

// Failure is a reason to refuse a pod.
type Failure struct {
	Reason  string // one word for the status
	Message string // for people

	// Shortage is the missing resource. It is nil if the failure is not about a resource.
	Shortage *Shortage
}

// Shortage is a resource of which a pod requests more than is left. Cpu is in thousandths, memory
// and storage are in bytes, other resources in pieces.
type Shortage struct {
	Resource                  v1.ResourceName
	Requested, Used, Capacity int64
}

// Missing returns the amount that has to be freed.
func (s Shortage) Missing() int64 { return s.Requested - (s.Capacity - s.Used) }
