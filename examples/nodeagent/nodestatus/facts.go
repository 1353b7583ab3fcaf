// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Facts are what a node says of itself.
type Facts struct {
	// NotReady says why pods cannot run now; nil is a node that is ready. Its text
	// is shown to everyone who may read nodes.
	NotReady error
	// Capacity is what the machine has, Allocatable what of it pods may have.
	Capacity, Allocatable v1.ResourceList
	// Addresses are the node's, the primary of each type first.
	Addresses []v1.NodeAddress
	// Info is of its system. Architecture and OperatingSystem count in scheduling.
	Info v1.NodeSystemInfo
	// Usage is what the pressure conditions are judged by. What is zero is
	// unknown, and no pressure.
	Usage Usage
	// Images are those on the node; the largest MaxImages are told.
	Images []v1.ContainerImage
}

// MaxImages is how many images a status lists, as the kubelet's
// nodeStatusMaxImages.
const MaxImages = 50

// Reasons of the Ready condition, as the kubelet's.
const (
	ReasonReady    = "KubeletReady"
	ReasonNotReady = "KubeletNotReady"
)

// status is what facts make of the status that the API server has. What others
// write is kept: their conditions, and the volumes that are attached or in use. What it returns shares nothing with before but values that
// nobody writes.
func status(before v1.NodeStatus, f Facts, pressures []pressure, now time.Time) v1.NodeStatus {
	after := before
	after.Capacity, after.Allocatable = f.Capacity, f.Allocatable
	after.Addresses, after.NodeInfo = f.Addresses, f.Info
	after.Images = largest(f.Images)
	after.Conditions = slices.Clone(before.Conditions)
	for _, p := range pressures {
		after.Conditions = set(after.Conditions, p.condition(), now)
	}
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: ReasonReady, Message: "the node agent is ready"}
	if f.NotReady != nil {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, ReasonNotReady, f.NotReady.Error()
	}
	after.Conditions = set(after.Conditions, ready, now)
	return after
}

// set puts c in its place, with the time of its last transition.
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

// largest returns the images that a status lists, in an order that does not
// depend on that of all.
func largest(all []v1.ContainerImage) []v1.ContainerImage {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	return all[:min(len(all), MaxImages)]
}
