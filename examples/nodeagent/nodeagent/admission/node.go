// SPDX-License-Identifier: Apache-2.0

package admission

import (
	v1 "k8s.io/api/core/v1"
)

// Node is what pods are admitted to. Nothing here is written.
type Node struct {
	// Name is the node's name. "" matches every pod's nodeName.
	Name string
	// OS is the operating system as in Go's GOOS. "" matches every pod's.
	OS string
	// Labels are the node's; those of the OS should be among them.
	Labels map[string]string
	// Taints are the node's. Only those of effect NoExecute count.
	Taints []v1.Taint
	// Allocatable is what pods may ask for together: "pods" is their number. See
	// the package's differences for what is not named.
	Allocatable v1.ResourceList
	// UnsafeSysctls are the names that pods may set besides the safe ones. A "*" at
	// the end stands for anything.
	UnsafeSysctls []string
}

// Reasons of failures, as the kubelet (1.36) writes them. That a resource is short
// is ReasonOutOf and its name, such as "OutOfcpu".
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

// Failure is one thing that stands in a pod's way.
type Failure struct {
	Reason  string // one word for the status
	Message string // for people

	// Shortage is what is missing, nil if it is no resource.
	Shortage *Shortage
}

// Shortage is a resource of which a pod asks for more than is left: cpu in
// thousandths, memory and storage in bytes, others in pieces.
type Shortage struct {
	Resource                  v1.ResourceName
	Requested, Used, Capacity int64
}

// Missing is how much has to be freed.
func (s Shortage) Missing() int64 { return s.Requested - (s.Capacity - s.Used) }

// Shortages returns what is missing, and whether nothing else is in the way.
func Shortages(failures []Failure) (short []Shortage, only bool) {
	for _, f := range failures {
		if f.Shortage != nil {
			short = append(short, *f.Shortage)
		}
	}
	return short, len(short) > 0 && len(short) == len(failures)
}

// Has reports whether one of the failures has this reason.
func Has(failures []Failure, reason string) bool {
	for _, f := range failures {
		if f.Reason == reason {
			return true
		}
	}
	return false
}
