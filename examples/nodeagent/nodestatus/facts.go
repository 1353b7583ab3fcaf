// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Facts are the data for the status of a node.
type Facts struct {
	// NotReady is the reason why pods cannot run now, nil if the node is ready. Its text is visible
	// to every reader of nodes.
	NotReady error
	// Capacity is the machine's resources. Allocatable is the part available to pods.
	Capacity, Allocatable v1.ResourceList
	// IsNew reports that the node has no record of earlier devices. If the API server has the node,
	// extended resources that are missing in Capacity are set to 0 at the registration, because they
	// may be devices of an earlier machine.
	IsNew bool
	// Addresses are the node's addresses, with the primary address of each type first.
	Addresses []v1.NodeAddress
	// Info describes the system. The scheduler uses Architecture and OperatingSystem.
	Info v1.NodeSystemInfo
	// KubeletPort is the port of the kubelet's server, which the API server connects to. 0: the node
	// has no such server.
	KubeletPort int32
	// Pressure has the conditions MemoryPressure, DiskPressure and PIDPressure. The status keeps a
	// condition that is missing in the map.
	Pressure map[v1.NodeConditionType]bool
	// Images are the images on the node. The status lists the Options.MaxImages largest images.
	Images []v1.ContainerImage
	// RuntimeHandlers are the handlers of the container runtime, in any order.
	RuntimeHandlers []v1.NodeRuntimeHandler
	// Features are the abilities of the container runtime; nil = unknown.
	Features *v1.NodeFeatures
	// DeclaredFeatures are the names of the Kubernetes features of the node, in any order. The
	// scheduler and the API server believe them (KEP-5328).
	DeclaredFeatures []string
}

// Reasons and message of the Ready condition, as in the kubelet: tools and tests search for them.
const (
	reasonReady    = "KubeletReady"
	messageReady   = "kubelet is posting ready status"
	reasonNotReady = "KubeletNotReady"
)

// status returns the API server's status, updated with facts. Fields of other clients are kept:
// their conditions and extended resources, and the attached and used volumes. The result shares only
// read-only data with before.
func status(before v1.NodeStatus, f Facts, now time.Time) v1.NodeStatus {
	after := before
	after.Capacity, after.Allocatable = withForeign(f, before.Capacity)
	after.Addresses, after.NodeInfo = f.Addresses, f.Info
	after.DaemonEndpoints.KubeletEndpoint.Port = f.KubeletPort
	after.Images = f.Images
	after.RuntimeHandlers = slices.SortedFunc(slices.Values(f.RuntimeHandlers), func(a, b v1.NodeRuntimeHandler) int {
		return cmp.Compare(a.Name, b.Name)
	})
	after.Features = f.Features
	after.DeclaredFeatures = slices.Sorted(slices.Values(f.DeclaredFeatures))
	after.Conditions = slices.Clone(before.Conditions)
	for _, kind := range pressures {
		if under, known := f.Pressure[kind]; known {
			after.Conditions = set(after.Conditions, pressureCondition(kind, under), now)
		}
	}
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: reasonReady, Message: messageReady}
	if f.NotReady != nil {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, reasonNotReady, f.NotReady.Error()
	}
	after.Conditions = set(after.Conditions, ready, now)
	return after
}

// set adds or replaces the condition c. The transition time changes only with the condition's
// status.
func set(all []v1.NodeCondition, c v1.NodeCondition, now time.Time) []v1.NodeCondition {
	c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	for i, was := range all {
		if was.Type != c.Type {
			continue
		}
		if was.Status == c.Status && !was.LastTransitionTime.IsZero() {
			c.LastTransitionTime = was.LastTransitionTime
		}
		all[i] = c
		return all
	}
	return append(all, c)
}

// largest returns the most largest images, all images if most is negative, in a deterministic order.
func largest(all []v1.ContainerImage, most int) []v1.ContainerImage {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if most < 0 {
		return all
	}
	return all[:min(len(all), most)]
}
