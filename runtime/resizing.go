// SPDX-License-Identifier: Apache-2.0

package runtime

// Resizing is how far the resize in place of one pod has come. It feeds the
// condition PodResizeInProgress. The zero value, none, is ready; it has no lock.
type Resizing struct {
	// UnderWay: containers do not have yet what the spec gives them. A caller
	// that accepts a resize may set it; Apply takes it back.
	UnderWay bool
	// Error is why the last try failed; for people.
	Error string
}

// Apply notes what a SyncPod of the pod did about it. A call that could not even
// read the pod changes nothing.
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
		case s.Action != ResizePodInPlace:
		case s.Err == nil:
			*r = Resizing{}
		default:
			*r = Resizing{UnderWay: true, Error: s.Err.Cause.Error()}
		}
	}
}
