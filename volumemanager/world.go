// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// State is how much is known to be mounted, for a pod or on the node.
type State uint8

// The states. What is uncertain is not used by a pod, is mounted again if it is
// wanted, and torn down when it is not.
const (
	StateNotMounted State = iota
	StateUncertain
	StateMounted
)

// String returns a word for s.
func (s State) String() string {
	switch s {
	case StateNotMounted:
		return "not mounted"
	case StateUncertain:
		return "uncertain"
	case StateMounted:
		return "mounted"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText returns String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Desire is what is wanted of a volume for one pod.
type Desire uint8

// The desires. A volume is unmounted in DesireGone only.
const (
	// DesireKept: nobody has asked for the volume in this life of the agent, or
	// the pod does not name it any more. It stays as it is.
	DesireKept Desire = iota
	// DesireMounted: the pod needs it.
	DesireMounted
	// DesireGone: the pod is positively gone.
	DesireGone
)

// String returns a word for d.
func (d Desire) String() string {
	switch d {
	case DesireKept:
		return "kept"
	case DesireMounted:
		return "mounted"
	case DesireGone:
		return "gone"
	}
	return fmt.Sprintf("Desire(%d)", uint8(d))
}

// MarshalText returns String.
func (d Desire) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// volume is one volume with all pods that want or have it: the desired and the
// actual state of the world side by side.
type volume struct {
	name   v1.UniqueVolumeName
	plugin Plugin
	spec   Spec // the newest

	attachable bool
	attached   bool // and has appeared; false if only found after a restart
	reported   bool // in the node's volumesInUse

	staged     bool // it is mounted for the node first
	device     State
	devicePath string
	deviceDir  string
	found      bool // the device was found after a restart

	// size is what the volume is known to have; zero if unknown.
	size resource.Quantity
	// fixed: the plugin says that this node cannot expand it.
	fixed bool

	rows    map[types.UID]*row
	busy    *operation // one that concerns all pods
	failure failure    // of the last such
}

// row is one volume of one pod.
type row struct {
	place Place
	// Desired.
	desire      Desire
	terminating bool // nothing will be started in the pod
	pod         *v1.Pod
	spec        Spec
	outer       []string // sorted
	requested   time.Time
	// refresh counts how often new content was asked for.
	refresh uint64

	// Actual.
	state   State
	mounted Mounted
	found   bool // after a restart, and not set up since
	// tried and done are what refresh was when the last SetUp began, and the last
	// that succeeded.
	tried, done uint64

	busy    *operation
	failure failure
}

// failure is how the last operation failed; zero if it did not.
type failure struct {
	kind     OperationKind
	count    int
	until    time.Time // not again before
	terminal bool      // not again at all
	err      error
}

// uids returns the pods of v in a fixed order.
func (v *volume) uids() []types.UID { return slices.Sorted(maps.Keys(v.rows)) }

// idle reports whether no operation runs on v.
func (v *volume) idle() bool {
	if v.busy != nil {
		return false
	}
	for _, r := range v.rows {
		if r.busy != nil {
			return false
		}
	}
	return true
}

// elsewhere returns another pod that has v, or may have.
func (v *volume) elsewhere(uid types.UID) (types.UID, bool) {
	for _, other := range v.uids() {
		if r := v.rows[other]; other != uid && (r.state != StateNotMounted || r.busy != nil) {
			return other, true
		}
	}
	return "", false
}

// refreshes reports whether v's content changes.
func (v *volume) refreshes(spec Spec) bool {
	p, ok := v.plugin.(Refresher)
	return ok && p.NeedsRefresh(spec)
}

// grows reports whether v is to be expanded to what spec says.
func (v *volume) grows(spec Spec) bool {
	if _, ok := v.plugin.(Expander); !ok || v.fixed || spec.ReadOnly || v.size.IsZero() || spec.Size.IsZero() {
		return false
	}
	return spec.Size.Cmp(v.size) > 0
}

// tidy removes the rows that say nothing: not wanted, not there. It returns the
// pods they were of.
func (v *volume) tidy() []types.UID {
	var removed []types.UID
	for uid, r := range v.rows {
		if r.desire != DesireMounted && r.state == StateNotMounted && r.busy == nil {
			delete(v.rows, uid)
			removed = append(removed, uid)
		}
	}
	return removed
}

// over reports whether nothing is left to know of v.
func (v *volume) over() bool {
	return len(v.rows) == 0 && v.busy == nil && v.device == StateNotMounted
}
