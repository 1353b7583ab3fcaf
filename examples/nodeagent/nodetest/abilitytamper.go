// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Another client that writes to the statuses of pods on the API server. The agent writes its own
// status again.

func tampering() ability {
	return ability{steps: []step{{4, (*generator).tamper}}, peaceful: []step{{2, (*generator).tamper}}}
}

// The parts of a status that another client changes.
const (
	tamperPhase      = "phase"
	tamperConditions = "conditions"
	tamperFields     = "fields"
	tamperContainers = "containers"
	tamperForeign    = "foreign" // is not of the agent
)

func (g *generator) tamper() {
	if name, s := g.anyPod(); !s.static {
		g.try(fmt.Sprintf("tamper %s %s", name, pick(g, tamperPhase, tamperConditions, tamperFields, tamperContainers, tamperForeign)))
	}
}

// tamper changes a part of the status of a pod that has not ended.
func (p *player) tamper(name, part string) error {
	uid, err := p.bound(name)
	if err != nil {
		return err
	}
	if over(p.server.Get(uid).Status.Phase) {
		return errOver
	}
	p.tampered[uid] = time.Now()
	return p.change(uid, func(pod *v1.Pod) {
		s := &pod.Status
		switch part {
		case tamperPhase:
			s.Phase, s.Reason, s.Message = v1.PodPending, "Tampered", "another client wrote it"
		case tamperConditions:
			s.Conditions = slices.DeleteFunc(s.Conditions, ofAgent)
		case tamperFields:
			s.QOSClass, s.PodIP, s.PodIPs, s.HostIP, s.HostIPs, s.ObservedGeneration = "", "", nil, "", nil, 0
		case tamperContainers:
			for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
				for i := range list {
					list[i].Ready, list[i].Started = false, nil
				}
			}
		case tamperForeign:
			s.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "claim", ResourceClaimName: new("claim-1")}}
			s.NominatedNodeName = "another"
			if _, known := conditionsOf(s)[conditionForeign]; !known {
				s.Conditions = append(s.Conditions, v1.PodCondition{Type: conditionForeign, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))})
			}
		}
	})
}

// conditionForeign is a condition of another client.
const conditionForeign v1.PodConditionType = "example.com/foreign"

// mended is the time after which the agent has written its status again: the agent answers another
// client at once, and further writes of that client after a pause.
const mended = 30 * time.Second

// ofAgent reports whether only the agent writes the condition.
func ofAgent(c v1.PodCondition) bool {
	switch c.Type {
	case v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodReadyToStartContainers, v1.AllContainersRestarting, v1.PodResizePending, v1.PodResizeInProgress:
		return true
	}
	return false
}

// heardInFull checks that the API server has the agent's status of a pod that has not ended. The
// server keeps its own start time, and the ends of init containers that run again in a new sandbox.
func heardInFull(stored, status *v1.PodStatus) error {
	theirs, ours := stored.DeepCopy(), status.DeepCopy()
	for _, s := range []*v1.PodStatus{theirs, ours} {
		s.StartTime, s.InitContainerStatuses, s.ResourceClaimStatuses, s.NominatedNodeName = nil, nil, nil, ""
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return !ofAgent(c) })
		for i := range s.Conditions {
			s.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	return sameFields(theirs, ours, false)
}
