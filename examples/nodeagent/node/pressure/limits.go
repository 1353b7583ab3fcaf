// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Causes of evictions for a limit of the pod itself, as in the metric kubelet_evictions.
const (
	LimitEmptyDir  = "emptydirfs.limit"
	LimitPod       = "ephemeralpodfs.limit"
	LimitContainer = "ephemeralcontainerfs.limit"
)

// HasLimits reports whether a pod has a limit of local storage, and is not critical: whether
// OverLimit could evict the pod.
func HasLimits(pod *v1.Pod) bool {
	if podfacts.IsCritical(pod) {
		return false
	}
	limit := storageLimit(pod)
	return limit.Sign() > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return sizeLimit(&v) != nil })
}

// OverLimit returns the evictions of the pods that exceed a limit of local storage: the sizeLimit
// of an emptyDir, the sum of the containers' ephemeral-storage limits, or the limit of a regular
// container. The first exceeded limit is the cause. Critical pods are not evicted.
func OverLimit(all []Usage) (evictions []Eviction) {
	for i := range all {
		u := &all[i]
		if !u.Known || podfacts.IsCritical(u.Pod) {
			continue
		}
		if cause, message := exceeded(u); cause != "" {
			evictions = append(evictions, Eviction{Pod: u.Pod, Grace: new(int64(1)), Cause: cause, Message: message})
		}
	}
	return evictions
}

// exceeded returns the first limit that a pod exceeds.
func exceeded(u *Usage) (cause, message string) {
	for i := range u.Pod.Spec.Volumes {
		v := &u.Pod.Spec.Volumes[i]
		limit := sizeLimit(v)
		if limit == nil {
			continue
		}
		for _, used := range u.Volumes {
			if used.Name == v.Name && used.Used.Bytes > quantities.Value(*limit) {
				return LimitEmptyDir, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String())
			}
		}
	}
	if limit := storageLimit(u.Pod); limit.Sign() > 0 && u.disk(everything).Bytes > quantities.Value(limit) {
		return LimitPod, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	for i := range u.Pod.Spec.Containers {
		c := &u.Pod.Spec.Containers[i]
		limit := c.Resources.Limits[v1.ResourceEphemeralStorage]
		if limit.IsZero() {
			continue
		}
		for _, used := range u.Containers {
			if used.Name == c.Name && used.Root.plus(used.Logs).Bytes > quantities.Value(limit) {
				return LimitContainer, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
			}
		}
	}
	return "", ""
}

// sizeLimit returns the limit of an emptyDir, nil without one.
func sizeLimit(v *v1.Volume) *resource.Quantity {
	if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
		return nil
	}
	return v.EmptyDir.SizeLimit
}

// storageLimit returns the limit of a pod's ephemeral storage: the most that its containers may use at
// the same time. A container without a limit adds nothing.
func storageLimit(pod *v1.Pod) resource.Quantity {
	limits := podresources.Peak(&pod.Spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Limits })
	return limits[v1.ResourceEphemeralStorage]
}
