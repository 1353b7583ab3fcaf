// SPDX-License-Identifier: Apache-2.0

package runtime

import "slices"

// Resizing is the progress of the in-place resize of a pod, for the condition PodResizeInProgress.
// The zero value means no resize and is ready for use. Resizing has no lock.
type Resizing struct {
	// UnderWay: containers do not have the resources of the spec yet. A caller that accepts a
	// resize may set the field. Apply clears the field.
	UnderWay bool
	// Error is the reason of the last failure, for people.
	Error string
}

// Apply records the outcome of a SyncPod of the pod. A call that could not read the pod changes
// nothing.
func (r *Resizing) Apply(result Result) {
	planned := result.ResizeWaits
	for i := range result.Plans {
		planned = planned || len(result.Plans[i].Resize) > 0
	}
	if !planned && len(result.Plans) == 0 && result.err != nil {
		return
	}
	*r = Resizing{UnderWay: planned}
	for i := range result.Steps {
		s := &result.Steps[i]
		switch {
		case s.Action == KillContainer && s.Err != nil && result.killsForResize(s.Target):
			r.UnderWay = true // the container runs with the earlier resources
		case s.Action != ResizePodInPlace:
		case s.Err == nil:
			*r = Resizing{}
		default:
			*r = Resizing{UnderWay: true, Error: s.Err.Cause.Error()}
		}
	}
}

// killsForResize reports whether the container was to be killed for a resize.
func (r *Result) killsForResize(container string) bool {
	return slices.ContainsFunc(r.Plans, func(a Actions) bool {
		return slices.ContainsFunc(a.Kill, func(k Kill) bool { return k.Name == container && k.Reason == killResize })
	})
}
