// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EventRecorder records events. Event must not block.
type EventRecorder interface {
	Event(object apiruntime.Object, eventType, reason, message string)
}

// reasons holds the kubelet's event reasons (1.36) for each condition: the first for False, the
// second for True.
var reasons = map[v1.NodeConditionType][2]string{
	v1.NodeReady:          {"NodeNotReady", "NodeReady"},
	v1.NodeMemoryPressure: {"NodeHasSufficientMemory", "NodeHasInsufficientMemory"},
	v1.NodeDiskPressure:   {"NodeHasNoDiskPressure", "NodeHasDiskPressure"},
	v1.NodePIDPressure:    {"NodeHasSufficientPID", "NodeHasInsufficientPID"},
}

// tell records an event for each condition with a changed status.
func (r *Reporter) tell(before, after []v1.NodeCondition) {
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
		r.event(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.opts.NodeName, reason))
	}
}

// tellReboot records an event if the machine was started since the last status.
func (r *Reporter) tellReboot(before, after string) {
	if before != "" && before != after {
		r.event(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", r.opts.NodeName, after))
	}
}

// tellCordon records an event if the node was cordoned or uncordoned. The change is seen at the next
// read of the node, within a minute.
func (r *Reporter) tellCordon(before, after bool) {
	if before == after {
		return
	}
	reason := "NodeSchedulable"
	if after {
		reason = "NodeNotSchedulable"
	}
	r.event(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.opts.NodeName, reason))
}

// event records an event about the node. As in the kubelet, the UID in the node's events is its
// name: kubectl selects events by this UID.
func (r *Reporter) event(eventType, reason, message string) {
	if r.opts.Events == nil {
		return
	}
	about := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.opts.NodeName, UID: types.UID(r.opts.NodeName)}
	r.opts.Events.Event(about, eventType, reason, message)
}
