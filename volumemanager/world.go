// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// State is the known mount state of a volume, for a pod or for the node.
type State uint8

// The states. An uncertain volume may be mounted in part or as a whole. The volume is set up again
// if its pod needs the volume, and torn down when its pod is gone. Containers may use an uncertain
// volume that was found after a restart.
const (
	StateNotMounted State = iota
	StateUncertain
	StateMounted
)

// String returns the name of the state, for example "not mounted".
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

// Desire is the desired state of a volume for a pod.
type Desire uint8

// The desires. A volume is unmounted in DesireGone only.
const (
	// DesireKept: the volume was not requested since the start of the agent, or its pod does not
	// name the volume any more. The volume stays unchanged.
	DesireKept Desire = iota
	// DesireMounted: the pod needs the volume.
	DesireMounted
	// DesireGone: the pod is positively gone.
	DesireGone
)

// String returns the name of the desire, for example "kept".
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

// volume is a volume with a row for each pod that needs or has the volume. Desired and actual state
// are kept side by side.
type volume struct {
	name   v1.UniqueVolumeName
	plugin Plugin
	spec   Spec // the newest

	attachable bool
	attached   bool // and the device has appeared; false if only found after a restart
	reported   bool // in the node's volumesInUse

	staged     bool // mounted for the node before the pods
	device     State
	devicePath string
	deviceDir  string
	found      bool // the device was found after a restart

	// size is the known size of the volume; zero if unknown.
	size resource.Quantity
	// fixed: the plugin cannot expand the volume on this node.
	fixed bool

	rows    []*row     // sorted by the UIDs of the pods
	busy    *operation // an operation on the whole volume
	failure failure    // of the last operation on the whole volume
}

// row is the state of a volume for a pod.
type row struct {
	place Place
	// Desired state.
	desire      Desire
	terminating bool // no further container of the pod will be started
	pod         *v1.Pod
	spec        Spec
	outer       []string // sorted
	requested   time.Time
	// refresh counts the requests for new content.
	refresh uint64

	// Actual state.
	state   State
	mounted Mounted
	found   bool // found after a restart, and not set up since
	// tried is the value of refresh at the start of the last SetUp, done at the start of the last
	// successful SetUp.
	tried, done uint64

	busy    *operation
	failure failure
}

// failure is the failure of the last operation; zero after a success.
type failure struct {
	kind     OperationKind
	count    int
	until    time.Time // no retry before
	terminal bool      // no retry at all
	err      error
}

// find returns the index of a pod's row, or the index at which to insert the row.
func (v *volume) find(uid types.UID) (at int, found bool) {
	return slices.BinarySearchFunc(v.rows, uid, func(r *row, uid types.UID) int { return cmp.Compare(r.place.PodUID, uid) })
}

// row returns the row of a pod, nil if there is none.
func (v *volume) row(uid types.UID) *row {
	if at, found := v.find(uid); found {
		return v.rows[at]
	}
	return nil
}

// elsewhere returns another pod with v mounted or uncertain.
func (v *volume) elsewhere(uid types.UID) (types.UID, bool) {
	for _, r := range v.rows {
		if other := r.place.PodUID; other != uid && r.state != StateNotMounted {
			return other, true
		}
	}
	return "", false
}

// refreshes reports whether v's content can change after SetUp.
func (v *volume) refreshes(spec Spec) bool {
	p, ok := v.plugin.(Refresher)
	return ok && p.NeedsRefresh(spec)
}

// grows reports whether v must be expanded to the size in spec.
func (v *volume) grows(spec Spec) bool {
	if _, ok := v.plugin.(Expander); !ok || v.fixed || spec.ReadOnly || v.size.IsZero() {
		return false
	}
	return spec.Size.Cmp(v.size) > 0
}

// removeIdleRows removes the rows that are neither needed nor mounted, and returns their pods.
func (v *volume) removeIdleRows() []types.UID {
	var removed []types.UID
	v.rows = slices.DeleteFunc(v.rows, func(r *row) bool {
		idle := r.desire != DesireMounted && r.state == StateNotMounted && r.busy == nil
		if idle {
			removed = append(removed, r.place.PodUID)
		}
		return idle
	})
	return removed
}

// isUnused reports whether v has no rows, operation or staged device, so that v can be forgotten.
func (v *volume) isUnused() bool {
	return len(v.rows) == 0 && v.busy == nil && v.device == StateNotMounted
}
