// SPDX-License-Identifier: Apache-2.0

package mirror

import v1 "k8s.io/api/core/v1"

// step is the next step for the mirror pod of a static pod.
type step uint8

// The steps. The zero step is invalid.
const (
	// stepNone: the mirror pod shows the current content of the static pod.
	stepNone step = iota + 1
	// stepCreate: the mirror pod is missing.
	stepCreate
	// stepReplace: the mirror pod is being deleted and waits for this node to confirm, or shows other
	// content. Delete and create the mirror pod, because the API server allows no edit.
	stepReplace
	// stepWait: the node has deleted the mirror pod, but finalizers hold it. Wait for its removal.
	stepWait
)

// decide returns the next step for a static pod and its mirror pod, nil if missing, by their
// metadata.
func decide(static, mirror *v1.Pod) step {
	switch {
	case mirror == nil:
		return stepCreate
	case mirror.DeletionTimestamp != nil && confirmed(mirror) && len(mirror.Finalizers) > 0:
		return stepWait
	case mirror.DeletionTimestamp != nil, !IsMirrorOf(mirror, static):
		return stepReplace
	}
	return stepNone
}

// confirmed reports whether the node has confirmed the deletion of p.
func confirmed(p *v1.Pod) bool {
	return p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}
