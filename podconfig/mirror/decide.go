// SPDX-License-Identifier: Apache-2.0

package mirror

import v1 "k8s.io/api/core/v1"

// Step is what has to be done about the mirror of a static pod.
type Step uint8

// The steps. The zero Step is none of them.
const (
	// StepNone: the mirror is there and shows the pod's present content.
	StepNone Step = iota + 1
	// StepCreate: there is no mirror.
	StepCreate
	// StepReplace: the mirror is being deleted, which waits for this node to confirm, or shows another content. It has to
	// be deleted and created anew, because the API server lets nobody edit it.
	StepReplace
	// StepWait: the node has deleted the mirror, and finalizers hold it. Nothing but its removal helps.
	StepWait
)

// String returns the name of the step.
func (s Step) String() string {
	switch s {
	case StepNone:
		return "none"
	case StepCreate:
		return "create"
	case StepReplace:
		return "replace"
	case StepWait:
		return "wait"
	}
	return "unknown"
}

// Decide tells what has to be done about a static pod and its mirror, nil if it has none. It is Client.Reconcile's rule.
func Decide(static, mirror *v1.Pod) Step {
	switch {
	case mirror == nil:
		return StepCreate
	case mirror.DeletionTimestamp != nil && confirmed(mirror) && len(mirror.Finalizers) > 0:
		return StepWait
	case mirror.DeletionTimestamp != nil, !IsMirrorOf(mirror, static):
		return StepReplace
	}
	return StepNone
}

// confirmed tells whether a pod that is being deleted waits for its node no more.
func confirmed(p *v1.Pod) bool {
	return p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}
