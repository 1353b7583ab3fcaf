// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"bytes"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// merge returns the UID and the status of pod with a patch of both applied, as strategicpatch does, without
// an encoding of the whole status. ok is false for patches with other fields than those that agents
// usually send. The result shares parts with pod.
func merge(pod *v1.Pod, patch []byte) (patched *v1.Pod, ok bool) {
	var p struct {
		Metadata struct {
			UID *types.UID `json:"uid"`
		} `json:"metadata"`
		Status map[string]json.RawMessage `json:"status"`
	}
	if !decode(patch, &p) || p.Metadata.UID == nil || p.Status == nil {
		return nil, false
	}
	patched = &v1.Pod{Status: pod.Status}
	patched.UID = *p.Metadata.UID
	for name, text := range p.Status {
		if !mergeField(&patched.Status, name, text) {
			return nil, false
		}
	}
	return patched, true
}

// mergeField changes a field of s. It does not write through the pointers of s.
func mergeField(s *v1.PodStatus, name string, text json.RawMessage) (ok bool) {
	switch name {
	case "observedGeneration":
		return set(&s.ObservedGeneration, text)
	case "phase":
		return set(&s.Phase, text)
	case "message":
		return set(&s.Message, text)
	case "reason":
		return set(&s.Reason, text)
	case "hostIP":
		return set(&s.HostIP, text)
	case "podIP":
		return set(&s.PodIP, text)
	case "qosClass":
		return set(&s.QOSClass, text)
	case "startTime":
		return set(&s.StartTime, text)
	case "initContainerStatuses":
		return set(&s.InitContainerStatuses, text)
	case "containerStatuses":
		return set(&s.ContainerStatuses, text)
	case "ephemeralContainerStatuses":
		return set(&s.EphemeralContainerStatuses, text)
	case "hostIPs":
		return replace(&s.HostIPs, text)
	case "podIPs":
		return replace(&s.PodIPs, text)
	case "conditions":
		return mergeConditions(&s.Conditions, text)
	}
	return false
}

func decode(text []byte, into any) (ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// set replaces a field. null is the zero value.
func set[T any](field *T, text json.RawMessage) (ok bool) {
	var value T
	ok = json.Unmarshal(text, &value) == nil
	*field = value
	return ok
}

// replace replaces a list that begins with the directive to do so, and removes a list that is null.
func replace[T any](field *[]T, text json.RawMessage) (ok bool) {
	var items []json.RawMessage
	switch {
	case json.Unmarshal(text, &items) != nil:
		return false
	case items == nil:
		*field = nil
		return true
	case len(items) == 0 || string(items[0]) != `{"$patch":"replace"}`:
		return false
	}
	list := make([]T, len(items)-1)
	for i := range list {
		if !decode(items[i+1], &list[i]) {
			return false
		}
	}
	*field = list
	return true
}

// conditionPatch is an item of a patch of conditions. A field that is missing stays.
type conditionPatch struct {
	Directive          string               `json:"$patch"`
	Type               *v1.PodConditionType `json:"type"`
	ObservedGeneration json.RawMessage      `json:"observedGeneration"`
	Status             json.RawMessage      `json:"status"`
	LastProbeTime      json.RawMessage      `json:"lastProbeTime"`
	LastTransitionTime json.RawMessage      `json:"lastTransitionTime"`
	Reason             json.RawMessage      `json:"reason"`
	Message            json.RawMessage      `json:"message"`
}

// apply changes the fields of c that the patch has.
func (p *conditionPatch) apply(c *v1.PodCondition) (ok bool) {
	c.Type = *p.Type
	return (p.ObservedGeneration == nil || set(&c.ObservedGeneration, p.ObservedGeneration)) &&
		(p.Status == nil || set(&c.Status, p.Status)) &&
		(p.LastProbeTime == nil || set(&c.LastProbeTime, p.LastProbeTime)) &&
		(p.LastTransitionTime == nil || set(&c.LastTransitionTime, p.LastTransitionTime)) &&
		(p.Reason == nil || set(&c.Reason, p.Reason)) &&
		(p.Message == nil || set(&c.Message, p.Message))
}

// mergeConditions merges a list by type. Conditions of the patch keep the order of the patch, other
// conditions the order of the list. A condition of the list comes before a condition of the patch
// only if the list has both, in this order.
func mergeConditions(list *[]v1.PodCondition, text json.RawMessage) (ok bool) {
	var patch []conditionPatch
	if !decode(text, &patch) || patch == nil {
		return false
	}
	old := *list
	index := func(t v1.PodConditionType) int {
		return slices.IndexFunc(old, func(c v1.PodCondition) bool { return c.Type == t })
	}
	named := make(map[v1.PodConditionType]bool, len(patch))
	var changed []v1.PodCondition
	for i := range patch {
		p := &patch[i]
		if p.Type == nil || named[*p.Type] || p.Directive != "" && p.Directive != "delete" {
			return false
		}
		named[*p.Type] = true
		if p.Directive == "delete" {
			continue
		}
		var c v1.PodCondition
		if at := index(*p.Type); at >= 0 {
			c = old[at]
		}
		if !p.apply(&c) {
			return false
		}
		changed = append(changed, c)
	}
	merged := make([]v1.PodCondition, 0, len(old)+len(changed))
	for i := range old {
		if named[old[i].Type] {
			continue
		}
		for len(changed) > 0 {
			if at := index(changed[0].Type); at > i {
				break
			}
			merged, changed = append(merged, changed[0]), changed[1:]
		}
		merged = append(merged, old[i])
	}
	*list = append(merged, changed...)
	return true
}
