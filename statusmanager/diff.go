// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/semantic"
)

// diff returns the strategic merge patch from one status of a pod to another, or nil if both are
// equal. The patch contains uid, so the server refuses the patch for another pod.
//
// Both statuses must agree in the fields of other writers, as a result of merge agrees with its API
// status. The patch contains no conditions of other writers and none of the other fields that Equal
// ignores. For lists merged by the server, the patch replaces the whole list, so a stale from does
// no harm.
func diff(from, to *v1.PodStatus, uid types.UID) ([]byte, error) {
	d := &differ{}
	d.status(from, to)
	return d.patch(uid)
}

// diffAll returns the patch that sets every field compared by diff, for a server with unknown
// content. known are conditions that the server may have. The patch deletes owned conditions of
// known that are missing in to. If the end of the pod is held, the server keeps its phase: to has the
// last known phase, and the server may have a later one by a request without an answer.
func diffAll(known []v1.PodCondition, to *v1.PodStatus, held bool, uid types.UID) ([]byte, error) {
	d := &differ{all: true, keepsPhase: held}
	d.status(&v1.PodStatus{Conditions: known}, to)
	return d.patch(uid)
}

// differ collects the fields of a patch.
type differ struct {
	all        bool // also equal fields
	keepsPhase bool // not the phase with its reason and message
	fields     bytes.Buffer
	err        error
}

func (d *differ) patch(uid types.UID) ([]byte, error) {
	if d.err != nil || d.fields.Len() == 0 {
		return nil, d.err
	}
	return fmt.Appendf(nil, `{"metadata":{"uid":%s},"status":{%s}}`, d.json(uid), d.fields.Bytes()), nil
}

// status compares the fields of a status; a test checks that no field is missing.
func (d *differ) status(from, to *v1.PodStatus) {
	if d.all || from.ObservedGeneration != to.ObservedGeneration {
		d.number("observedGeneration", to.ObservedGeneration)
	}
	if !d.keepsPhase {
		d.text("phase", string(from.Phase), string(to.Phase))
		d.text("message", from.Message, to.Message)
		d.text("reason", from.Reason, to.Reason)
	}
	d.conditions(from.Conditions, to.Conditions)
	d.text("hostIP", from.HostIP, to.HostIP)
	merged(d, "hostIPs", from.HostIPs, to.HostIPs)
	d.text("podIP", from.PodIP, to.PodIP)
	merged(d, "podIPs", from.PodIPs, to.PodIPs)
	if d.all || !from.StartTime.Equal(to.StartTime) {
		d.value("startTime", to.StartTime, to.StartTime.IsZero())
	}
	atomic(d, "initContainerStatuses", from.InitContainerStatuses, to.InitContainerStatuses)
	atomic(d, "containerStatuses", from.ContainerStatuses, to.ContainerStatuses)
	atomic(d, "ephemeralContainerStatuses", from.EphemeralContainerStatuses, to.EphemeralContainerStatuses)
	if to.QOSClass != "" { // is never taken back
		d.text("qosClass", string(from.QOSClass), string(to.QOSClass))
	}
	d.text("resize", string(from.Resize), string(to.Resize))
	if d.all || !semantic.Equal(&from.AllocatedResources, &to.AllocatedResources) {
		d.value("allocatedResources", amounts(from.AllocatedResources, to.AllocatedResources), len(to.AllocatedResources) == 0)
	}
	if d.all || !semantic.Equal(&from.Resources, &to.Resources) {
		d.value("resources", requirements(from.Resources, to.Resources), to.Resources == nil)
	}
	atomic(d, "volumeHealth", from.VolumeHealth, to.VolumeHealth)
}

// sentCondition is a condition with every field, so that an empty field clears the server's value.
type sentCondition struct {
	Type               v1.PodConditionType `json:"type"`
	ObservedGeneration int64               `json:"observedGeneration"`
	Status             v1.ConditionStatus  `json:"status"`
	LastProbeTime      json.RawMessage     `json:"lastProbeTime"`
	LastTransitionTime json.RawMessage     `json:"lastTransitionTime"`
	Reason             string              `json:"reason"`
	Message            string              `json:"message"`
}

// conditions sends changed conditions of the agent in full, and deletes removed conditions. The
// server merges conditions by type.
func (d *differ) conditions(from, to []v1.PodCondition) {
	var list []json.RawMessage
	for i := range to {
		c := &to[i]
		if !owned(c.Type) && !shared(c.Type) {
			continue
		}
		old := podfacts.Condition(from, c.Type)
		if old != nil && sameCondition(old, c) && !(d.all && owned(c.Type)) {
			continue
		}
		list = append(list, d.json(sentCondition{
			Type: c.Type, ObservedGeneration: c.ObservedGeneration, Status: c.Status,
			LastProbeTime: d.json(c.LastProbeTime), LastTransitionTime: d.json(c.LastTransitionTime),
			Reason: c.Reason, Message: c.Message,
		}))
	}
	for i := range from {
		if t := from[i].Type; owned(t) && podfacts.Condition(to, t) == nil {
			list = append(list, fmt.Appendf(nil, `{"$patch":"delete","type":%s}`, d.json(t)))
		}
	}
	if len(list) > 0 {
		d.value("conditions", list, false)
	}
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration &&
		a.LastProbeTime.Equal(&b.LastProbeTime) && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

func (d *differ) text(name, from, to string) {
	if d.all || from != to {
		d.value(name, to, to == "")
	}
}

func (d *differ) number(name string, to int64) { d.value(name, to, to == 0) }

// atomic adds a list that the server replaces.
func atomic[T any](d *differ, name string, from, to []T) {
	if d.all || !semantic.Equal(&from, &to) {
		d.value(name, to, len(to) == 0)
	}
}

// merged adds a list with a replace directive, because the server merges the list by default.
func merged[T any](d *differ, name string, from, to []T) {
	if !d.all && semantic.Equal(&from, &to) {
		return
	}
	if len(to) == 0 {
		d.null(name)
		return
	}
	list := []json.RawMessage{json.RawMessage(`{"$patch":"replace"}`)}
	for _, item := range to {
		list = append(list, d.json(item))
	}
	d.value(name, list, false)
}

// amounts returns an object that the server merges: removed names must be null. A replace directive
// for the whole object does not work, because the server then loses new names.
func amounts(from, to v1.ResourceList) map[v1.ResourceName]*resource.Quantity {
	if len(to) == 0 {
		return nil
	}
	out := make(map[v1.ResourceName]*resource.Quantity, len(to))
	for name := range from {
		out[name] = nil
	}
	for name, amount := range to {
		out[name] = &amount
	}
	return out
}

// sentRequirements are resource requirements with null for empty fields.
type sentRequirements struct {
	Limits   map[v1.ResourceName]*resource.Quantity `json:"limits"`
	Requests map[v1.ResourceName]*resource.Quantity `json:"requests"`
	Claims   []v1.ResourceClaim                     `json:"claims"`
}

func requirements(from, to *v1.ResourceRequirements) sentRequirements {
	if from == nil {
		from = &v1.ResourceRequirements{}
	}
	if to == nil {
		return sentRequirements{}
	}
	return sentRequirements{amounts(from.Limits, to.Limits), amounts(from.Requests, to.Requests), to.Claims}
}

func (d *differ) null(name string) { d.value(name, nil, true) }

func (d *differ) value(name string, value any, empty bool) {
	text := json.RawMessage("null")
	if !empty {
		text = d.json(value)
	}
	if d.err != nil {
		return
	}
	if d.fields.Len() != 0 {
		d.fields.WriteByte(',')
	}
	fmt.Fprintf(&d.fields, "%q:%s", name, text)
}

func (d *differ) json(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("statusmanager: encoding a status: %w", err)
	}
	return text
}
