// SPDX-License-Identifier: Apache-2.0

package volumeapi

import "github.com/keelson-dev/keelson/volumemanager/plugins/objects"

const (
	AnswerPatience = answerPatience
	AttachPatience = attachPatience
	RequestTimeout = requestTimeout

	PhaseSettled  = phaseSettled
	PhaseWatching = phaseWatching
)

var AttachmentName = attachmentName

// ObjectState is the state of an object in Objects.
type ObjectState struct {
	Pods  int // registered pods that use the object
	Phase phase
}

// Snapshot returns the state of each object used by registered pods.
func (o *Objects) Snapshot() map[objects.Ref]ObjectState {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[objects.Ref]ObjectState, len(o.mu.entries))
	for ref, e := range o.mu.entries {
		all[ref] = ObjectState{e.users, e.phase}
	}
	return all
}
