// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"os"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
)

// MemoryQoS protects the requested memory of containers and throttles containers with a much higher
// use, through cgroup v2, as the kubelet of 1.37 does with memoryReservationPolicy and
// memoryThrottlingFactor (KEP-2570).
type MemoryQoS struct {
	// Reservation protects requested memory from reclaim. Defaults to NoReservation. The cgroups above
	// the containers need the same protection.
	Reservation MemoryReservation
	// ThrottlingFactor sets the point between request and limit at which a container is throttled:
	// 1 is the limit. Defaults to 0: containers are not throttled.
	ThrottlingFactor float64
	// Allocatable replaces the missing limit of a container, in bytes. Defaults to the node's
	// memory.
	Allocatable int64
}

// MemoryReservation is how requested memory is protected.
type MemoryReservation string

// The reservations, with the kubelet's words.
const (
	NoReservation MemoryReservation = "None"
	// TieredReservation sets memory.min for containers of guaranteed pods: their memory is never
	// reclaimed. It sets memory.low for containers of burstable pods: their memory is reclaimed last.
	TieredReservation MemoryReservation = "TieredReservation"
)

// SwapPolicy limits the containers' use of the node's swap.
type SwapPolicy string

// The policies, with the kubelet's words.
const (
	// SwapOfRuntime leaves swap to the runtime: containerd gives no swap to a container with a
	// memory limit.
	SwapOfRuntime SwapPolicy = ""
	NoSwap        SwapPolicy = "NoSwap"
	// LimitedSwap gives containers of burstable pods a share of the swap equal to their requested
	// share of the memory. Containers whose request equals their limit and containers of critical
	// or static pods get no swap (KEP-2400).
	LimitedSwap SwapPolicy = "LimitedSwap"
)

// The files of cgroup v2 written here.
const (
	memoryMin     = "memory.min"
	memoryLow     = "memory.low"
	memoryHigh    = "memory.high"
	memorySwapMax = "memory.swap.max"
	unlimited     = "max"
)

// unifiedMemory returns the cgroup v2 settings of a container of a pod of that class.
func (q *MemoryQoS) unifiedMemory(class v1.PodQOSClass, d podresources.Demand, n node) map[string]string {
	out := q.throttling(d, n)
	out[memoryMin], out[memoryLow] = "0", "0"
	if q.Reservation == TieredReservation {
		key := memoryLow
		if class == v1.PodQOSGuaranteed {
			key = memoryMin
		}
		out[key] = strconv.FormatInt(d.MemoryRequest, 10)
	}
	return out
}

// throttling returns memory.high. For a container without throttling the value is "max", which removes
// an earlier limit.
func (q *MemoryQoS) throttling(d podresources.Demand, n node) map[string]string {
	if high := q.high(d, n); high > 0 {
		return map[string]string{memoryHigh: strconv.FormatInt(high, 10)}
	}
	return map[string]string{memoryHigh: unlimited}
}

// high returns the memory use from which a container is slowed down, in bytes of whole pages; 0:
// never.
func (q *MemoryQoS) high(d podresources.Demand, n node) int64 {
	if d.MemoryRequest == d.MemoryLimit || q.ThrottlingFactor == 0 {
		return 0
	}
	ceiling := cmp.Or(d.MemoryLimit, q.Allocatable, n.memory)
	page := int64(os.Getpagesize())
	high := (d.MemoryRequest + int64(q.ThrottlingFactor*float64(ceiling-d.MemoryRequest))) / page * page
	if high <= d.MemoryRequest {
		return 0 // a lower value would throttle the requested memory
	}
	return high
}

// swapOf returns the swap that a container may use, in bytes.
func (p SwapPolicy) swapOf(pod *v1.Pod, d podresources.Demand, n node) int64 {
	switch {
	case p != LimitedSwap, podfacts.IsCritical(pod), podresources.QOS(pod) != v1.PodQOSBurstable, d.MemoryRequest == d.MemoryLimit, n.memory <= 0:
		return 0
	}
	return int64(float64(d.MemoryRequest) / float64(n.memory) * float64(n.swap))
}
