// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessages is how many bytes the termination messages of a pod's containers share.
const maxMessages = 12 << 10

// Normalize brings status, in place, to the form in which the API server will give it back: times in whole seconds, text
// in valid UTF-8, each termination message cut to its share of 12 KiB at the border of a rune, container statuses by
// name and those of init containers in the order of the spec.
func Normalize(spec *v1.PodSpec, status *v1.PodStatus) {
	status.Message, status.Reason = valid(status.Message), valid(status.Reason)
	wholeSeconds(status.StartTime)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Message, c.Reason = valid(c.Message), valid(c.Reason)
		wholeSeconds(&c.LastProbeTime)
		wholeSeconds(&c.LastTransitionTime)
	}
	limit := maxMessages / max(1, len(spec.Containers)+len(spec.InitContainers)+len(spec.EphemeralContainers))
	for _, list := range [][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			normalizeState(&list[i].State, limit)
			normalizeState(&list[i].LastTerminationState, limit)
		}
	}
	byName := func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortStableFunc(status.ContainerStatuses, byName)
	slices.SortStableFunc(status.EphemeralContainerStatuses, byName)
	sortAsSpecified(spec.InitContainers, status.InitContainerStatuses)
}

func normalizeState(s *v1.ContainerState, limit int) {
	if w := s.Waiting; w != nil {
		w.Reason, w.Message = valid(w.Reason), valid(w.Message)
	}
	if r := s.Running; r != nil {
		wholeSeconds(&r.StartedAt)
	}
	if t := s.Terminated; t != nil {
		wholeSeconds(&t.StartedAt)
		wholeSeconds(&t.FinishedAt)
		t.Reason, t.Message = valid(t.Reason), cut(valid(t.Message), limit)
	}
}

// sortAsSpecified puts statuses in the order of the containers; those of no container come last, by name.
func sortAsSpecified(containers []v1.Container, statuses []v1.ContainerStatus) {
	place := func(s *v1.ContainerStatus) int {
		for i := range containers {
			if containers[i].Name == s.Name {
				return i
			}
		}
		return len(containers)
	}
	slices.SortStableFunc(statuses, func(a, b v1.ContainerStatus) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)), cmp.Compare(a.Name, b.Name))
	})
}

// wholeSeconds makes of t what decoding it would give.
func wholeSeconds(t *metav1.Time) {
	if !t.IsZero() {
		t.Time = t.Truncate(time.Second).Local()
	}
}

// valid replaces what is no UTF-8 as JSON would, so that what is kept is what is sent.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// cut returns at most limit bytes of s, which is valid UTF-8, and still is afterwards.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
