// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// Each case is a history without a violation, and a change that has one.
func TestPatchesAreJudged(t *testing.T) {
	// patched returns a change of the text of the last patch.
	patched := func(old, text string) func(*testing.T, *History) {
		return func(t *testing.T, h *History) {
			r := lastPatch(h)
			require.Contains(t, r.Patch, old)
			r.Patch = strings.Replace(r.Patch, old, text, 1)
		}
	}
	// stored returns a change of the last version on the server, which is by the agent.
	stored := func(edit func(s *v1.PodStatus)) func(*testing.T, *History) {
		return func(t *testing.T, h *History) {
			last := &h.Stored[len(h.Stored)-1]
			last.Pod = last.Pod.DeepCopy()
			edit(&last.Pod.Status)
		}
	}
	runs := "bind p\nsleep 5s\nexit p/c 1\nsleep 1m"
	ends := "bind p restart=Never grace=1\nsleep 5s\ndelete p\nsleep 1s"
	for _, c := range []struct {
		name, script string
		change       func(*testing.T, *History)
		want         string
	}{
		{"another pod", runs, patched(`"uid":"uid-p"`, `"uid":"p-2"`), `it is for UID "p-2"`},
		{"metadata", runs, patched(`"metadata":{`, `"metadata":{"labels":{},`), "it is for UID"},
		{"no JSON", runs, patched(`{`, ``), "invalid character"},
		{"field of another client", runs, patched(`"status":{`, `"status":{"nominatedNodeName":"x",`), "field nominatedNodeName is not of the agent"},
		{"condition of another client", runs, patched(`"conditions":[`, `"conditions":[{"type":"example.com/x","status":"True"},`), "condition example.com/x is not of the agent"},
		{"field that stays", runs, patched(`"status":{`, `"status":{"hostIP":"1.2.3.4",`), "field hostIP was"},
		{"condition that stays", runs, patched(`"conditions":[`, `"conditions":[{"type":"Initialized"},`), "condition Initialized was"},
		{"nothing new", runs, func(_ *testing.T, h *History) {
			again := *lastPatch(h)
			again.At, again.Changed = h.Taken, false
			h.Requests = append(h.Requests, again)
		}, "it changes nothing"},
		{"a field is missing in doubt", runs, func(t *testing.T, h *History) {
			again := *lastPatch(h)
			h.Requests = append(h.Requests[:len(h.Requests)-1], again, again)
			h.Requests[len(h.Requests)-2].Err, h.Requests[len(h.Requests)-2].Changed = statustest.ErrReplyLost, false
		}, "it lacks field observedGeneration"},
		{"an end is undone", runs, func(_ *testing.T, h *History) {
			again := *lastPatch(h)
			again.At, again.Changed = h.Taken, false
			again.Err = apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Forbidden(field.NewPath("status"), "a container may not come back from its end")})
			h.Requests = append(h.Requests, again)
		}, "may not come back from its end"},
		{"order of containers", "bind p main=c,d\nsleep 5s\nexit p/c 1\nsleep 1m", stored(func(s *v1.PodStatus) { slices.Reverse(s.ContainerStatuses) }), "are not in the order of their names"},
		{"phase", runs, stored(func(s *v1.PodStatus) { s.Phase, s.Reason = v1.PodRunning, "Told" }), "is Running (Told: )"},
		{"address", runs, stored(func(s *v1.PodStatus) { s.PodIP = "1.2.3.4" }), "pod IP should be"},
		{"generation", runs, stored(func(s *v1.PodStatus) { s.ObservedGeneration++ }), "observed generation should be 1, and is 2"},
		{"start time", runs, stored(func(s *v1.PodStatus) { s.StartTime = new(metav1.Unix(7, 0)) }), "start time should be"},
		{"claims of another client", "bind p\nsleep 5s\ntamper p foreign\nsleep 5s\nexit p/c 1\nsleep 1m", stored(func(s *v1.PodStatus) { s.ResourceClaimStatuses = nil }), "resource claims should be"},
		{"condition of another client is lost", "bind p\nsleep 5s\ntamper p foreign\nsleep 5s\nexit p/c 1\nsleep 1m", stored(func(s *v1.PodStatus) {
			s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == conditionForeign })
		}), "condition example.com/foreign is missing"},
		{"condition", runs, stored(func(s *v1.PodStatus) { of(s, v1.PodInitialized).Reason = "Told" }), "condition Initialized is"},
		{"condition is lost", runs, stored(func(s *v1.PodStatus) {
			s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
		}), "condition PodScheduled is missing"},
		{"condition of no publication", runs, stored(func(s *v1.PodStatus) {
			s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.PodResizePending, Status: v1.ConditionTrue})
		}), "and is not told"},
		{"transition", runs, stored(func(s *v1.PodStatus) { of(s, v1.PodReady).LastTransitionTime = metav1.Unix(7, 0) }), "transition of Ready to True should be"},
		{"container", runs, stored(func(s *v1.PodStatus) { s.ContainerStatuses[0].RestartCount++ }), "container c should be"},
		{"container is lost", runs, stored(func(s *v1.PodStatus) { s.ContainerStatuses = nil }), "1 containers are told, and it has 0"},
		{"container has another name", runs, stored(func(s *v1.PodStatus) { s.ContainerStatuses[0].Name = "d" }), "container c is missing"},
		{"unknown end", ends, stored(func(s *v1.PodStatus) { s.ContainerStatuses[0].State.Terminated.ExitCode++ }), "container c should be"},
		{"ended and ready", ends, stored(func(s *v1.PodStatus) { s.ContainerStatuses[0].Ready = true }), "container c should be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := lived(t, c.script)
			require.NoError(t, Check(h))
			h.Stored, h.Requests = slices.Clone(h.Stored), slices.Clone(h.Requests)
			c.change(t, &h)
			require.ErrorContains(t, Check(h), c.want)
		})
	}
}

func lastPatch(h *History) *statustest.Entry {
	for i := range slices.Backward(h.Requests) {
		if h.Requests[i].Request == statusmanager.RequestPatch {
			return &h.Requests[i]
		}
	}
	return nil
}

// of returns a condition.
func of(s *v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	return &s.Conditions[slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })]
}
