// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount is a fixed amount, or a share of a capacity.
type Amount struct {
	Value int64   // in bytes, inodes or process IDs
	Share float32 // of the capacity, if greater than 0
}

// Of returns the amount for a capacity. The product with a share is cut to a whole number. The figure
// is the kubelet's, which rounds the share to a float32 and nothing else.
func (a Amount) Of(capacity int64) int64 {
	if a.Share > 0 {
		return int64(float64(capacity) * float64(a.Share))
	}
	return a.Value
}

// String returns a percentage or a quantity.
func (a Amount) String() string {
	if a.Share > 0 {
		return strconv.FormatFloat(float64(a.Share)*100, 'g', 6, 32) + "%"
	}
	return resource.NewQuantity(a.Value, resource.BinarySI).String()
}

// Threshold is a limit of a signal. The threshold is met while the signal is less than Below. After
// pods were evicted for a threshold, the threshold stays met up to Below plus Reclaim.
type Threshold struct {
	Signal  Signal
	Below   Amount
	Reclaim Amount
	// Grace is the time for which a threshold has to be met before pods are evicted. A threshold
	// with a Grace of 0 is hard, and any other threshold is soft.
	Grace time.Duration
}

// IsHard reports whether pods are evicted at once.
func (t Threshold) IsHard() bool { return t.Grace == 0 }

// String returns the threshold in the form of the kubelet's flags, with the grace of a soft one.
func (t Threshold) String() string {
	text := fmt.Sprintf("%s<%s", t.Signal, t.Below)
	if !t.IsHard() {
		text += fmt.Sprintf(" for %s", t.Grace)
	}
	return text
}

// DefaultHard returns the kubelet's hard thresholds (1.36), in the form of Settings.Hard.
func DefaultHard() map[string]string {
	return map[string]string{
		string(MemoryAvailable): "100Mi", string(NodeFSAvailable): "10%", string(NodeFSInodesFree): "5%",
		string(ImageFSAvailable): "15%", string(ImageFSInodesFree): "5%",
	}
}

// DefaultHold is the default of Policy.Hold.
const DefaultHold = 5 * time.Minute

// Withheld returns the part of a capacity that is kept free for hard thresholds: memory and
// ephemeral storage. A node reports its capacity without this part as allocatable. As in the
// kubelet, soft thresholds, image file systems and Reclaim do not count.
func Withheld(capacity v1.ResourceList, thresholds []Threshold) v1.ResourceList {
	list := v1.ResourceList{}
	for _, t := range thresholds {
		name := t.Signal.Resource()
		all, known := capacity[name]
		if !t.IsHard() || !known || t.Signal != MemoryAvailable && t.Signal != NodeFSAvailable {
			continue
		}
		list[name] = *resource.NewQuantity(t.Below.Of(all.Value()), resource.BinarySI)
	}
	return list
}

// Reading is the measurement of a signal.
type Reading struct {
	Available, Capacity int64
	At                  time.Time
}

// isMet reports whether a reading is below a threshold. wasActive says that the last pass has found
// the threshold met for its Grace.
func (t Threshold) isMet(r Reading, wasActive map[Threshold]bool) bool {
	limit := t.Below.Of(r.Capacity)
	if wasActive[t] {
		limit += t.Reclaim.Of(r.Capacity)
	}
	return r.Available < limit
}
