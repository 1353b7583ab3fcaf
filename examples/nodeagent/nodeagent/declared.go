// SPDX-License-Identifier: Apache-2.0

package nodeagent

import v1 "k8s.io/api/core/v1"

// declaration is how somebody else has declared a pod to be over.
type declaration struct {
	phase           v1.PodPhase
	reason, message string
}

// declarations are those that the agent has acted on. A status that was on its way to the
// API server at that moment may have replaced the declaration there.
type declarations struct{ *byUID[declaration] }

func newDeclarations() *declarations { return &declarations{newByUID[declaration]()} }

// note remembers what the pod says of itself.
func (d *declarations) note(pod *v1.Pod) {
	d.set(pod.UID, declaration{pod.Status.Phase, pod.Status.Reason, pod.Status.Message})
}

// uphold returns the pod as it was declared to be, if it was.
func (d *declarations) uphold(pod *v1.Pod) *v1.Pod {
	declared := d.get(pod.UID)
	if declared.phase == "" || isOver(pod.Status.Phase) {
		return pod
	}
	upheld := *pod
	upheld.Status.Phase, upheld.Status.Reason, upheld.Status.Message = declared.phase, declared.reason, declared.message
	return &upheld
}
