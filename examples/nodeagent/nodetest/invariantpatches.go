// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/statusmanager"
)

// Invariants about the text of the patches that agents send.

// patch is the text of a request that patches a status.
type patch struct {
	Metadata map[string]json.RawMessage `json:"metadata"`
	Status   map[string]json.RawMessage `json:"status"`
}

// condition is a condition in a patch.
type condition struct {
	Directive string              `json:"$patch"`
	Type      v1.PodConditionType `json:"type"`
}

// agentFields are the fields of a status that agents write. The first are in each patch that sets every field, because
// each status has them.
var agentFields = []string{
	"observedGeneration", "conditions", "hostIP", "hostIPs", "podIP", "podIPs", "startTime",
	"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses", "resize", "allocatedResources", "resources", "volumeHealth",
	"qosClass", "phase", "reason", "message",
}

// alwaysSet is the number of agentFields in each patch that sets every field. A status may have no QoS class, and an
// end that is held back leaves the phase alone.
const alwaysSet = 14

// patches checks each patch: it names the UID of the pod and changes fields and conditions of the agent only. It has only
// fields that change something, or every field if an earlier patch may have been carried out.
func (c *checker) patches() {
	for _, t := range c.talks() {
		for _, r := range t.requests {
			if r.Request != statusmanager.RequestPatch {
				continue
			}
			r.hazy = r.hazy || t.mirror && r.unsure // the agent may have forgotten the static pod meanwhile
			if err := r.wellFormed(t.mirror); err != nil {
				c.violate(r.At, "patch of %s (%s): %v: %s", r.Pod.Name, t.uid, err, r.Patch)
			}
		}
	}
}

func (r *request) wellFormed(mirror bool) error {
	var p patch
	if err := json.Unmarshal([]byte(r.Patch), &p); err != nil {
		return err
	}
	if uid := string(p.Metadata["uid"]); uid != fmt.Sprintf("%q", r.Pod.UID) || len(p.Metadata) != 1 {
		return fmt.Errorf("it is for UID %s", uid)
	}
	for name := range p.Status {
		if !slices.Contains(agentFields, name) {
			return fmt.Errorf("field %s is not of the agent", name)
		}
	}
	var conditions []condition
	if list, ok := p.Status["conditions"]; ok {
		if err := json.Unmarshal(list, &conditions); err != nil {
			return err
		}
	}
	for _, c := range conditions {
		if !ofAgent(v1.PodCondition{Type: c.Type}) && c.Type != v1.PodScheduled && c.Type != v1.DisruptionTarget {
			return fmt.Errorf("condition %s is not of the agent", c.Type)
		}
	}
	switch {
	case r.hazy:
		return nil
	case apierrors.IsBadRequest(r.Err) || apierrors.HasStatusCause(r.Err, metav1.CauseTypeForbidden):
		return r.Err
	case r.unsure:
		return setsAll(p.Status)
	case mirror && setsAll(p.Status) == nil: // the agent had forgotten the static pod during a request
		return nil
	case r.after != nil:
		return changesAll(p.Status, conditions, r.before, r.after)
	case r.Err == nil:
		return fmt.Errorf("it changes nothing")
	}
	return nil
}

// setsAll checks that a patch has every field.
func setsAll(fields map[string]json.RawMessage) error {
	for _, name := range agentFields[:alwaysSet] {
		if _, ok := fields[name]; !ok {
			return fmt.Errorf("an earlier patch may have been carried out, and it lacks field %s", name)
		}
	}
	return nil
}

// changesAll checks that each field and each condition of a patch has changed the status.
func changesAll(fields map[string]json.RawMessage, conditions []condition, before, after *v1.Pod) error {
	was, err := jsonOf(&before.Status)
	if err != nil {
		return err
	}
	is, err := jsonOf(&after.Status)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if string(was[name]) == string(is[name]) {
			return fmt.Errorf("field %s was %s before", name, strings.TrimSpace(string(was[name])))
		}
	}
	old, now := conditionsOf(&before.Status), conditionsOf(&after.Status)
	for _, c := range conditions {
		if old[c.Type] == now[c.Type] {
			return fmt.Errorf("condition %s was %+v before", c.Type, old[c.Type])
		}
	}
	return nil
}

func jsonOf(status *v1.PodStatus) (fields map[string]json.RawMessage, err error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return fields, json.Unmarshal(text, &fields)
}
