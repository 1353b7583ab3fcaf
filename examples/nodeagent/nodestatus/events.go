// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EventRecorder receives events. It must not block.
type EventRecorder interface {
	Event(object apiruntime.Object, eventType, reason, message string)
}

// reasons are the kubelet's (1.36) of events about a condition that has become false,
// and true.
var reasons = map[v1.NodeConditionType][2]string{
	v1.NodeReady:          {"NodeNotReady", "NodeReady"},
	v1.NodeMemoryPressure: {"NodeHasSufficientMemory", "NodeHasInsufficientMemory"},
	v1.NodeDiskPressure:   {"NodeHasNoDiskPressure", "NodeHasDiskPressure"},
	v1.NodePIDPressure:    {"NodeHasSufficientPID", "NodeHasInsufficientPID"},
}

// tell records which conditions have changed.
func (r *Reporter) tell(before, after []v1.NodeCondition) {
	if r.opts.Events == nil {
		return
	}
	was := make(map[v1.NodeConditionType]v1.ConditionStatus, len(before))
	for _, c := range before {
		was[c.Type] = c.Status
	}
	for _, c := range after {
		words, ours := reasons[c.Type]
		if !ours || was[c.Type] == c.Status {
			continue
		}
		reason := words[0]
		if c.Status == v1.ConditionTrue {
			reason = words[1]
		}
		// The UID of a node in events of its agent is its name: kubectl looks for that.
		r.opts.Events.Event(&v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.opts.NodeName, UID: types.UID(r.opts.NodeName)},
			v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.opts.NodeName, reason))
	}
}
