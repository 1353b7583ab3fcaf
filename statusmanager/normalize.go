// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/sorted"
)

// maxMessages is how many bytes the termination messages of a pod's containers share.
const maxMessages = 12 << 10

// Normalize converts status, in place, to the form returned by the API server. Times have whole
// seconds, and text is valid UTF-8. Each termination message is cut between runes to its share of
// 12 KiB. Container statuses are sorted by name, and init container statuses by the order of the
// spec. If several conditions have the same type, the first is kept, because a patch cannot
// distinguish them.
func Normalize(spec *v1.PodSpec, status *v1.PodStatus) {
	status.Message, status.Reason = valid(status.Message), valid(status.Reason)
	wholeSeconds(status.StartTime)
	status.Conditions = firstOfType(status.Conditions)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Message, c.Reason = valid(c.Message), valid(c.Reason)
		wholeSeconds(&c.LastProbeTime)
		wholeSeconds(&c.LastTransitionTime)
	}
	limit := maxMessages / max(1, len(spec.Containers)+len(spec.InitContainers)+len(spec.EphemeralContainers))
	for s := range podfacts.AllStatuses(status) {
		normalizeState(&s.State, limit)
		normalizeState(&s.LastTerminationState, limit)
	}
	byName := func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }
	sorted.Stable(status.ContainerStatuses, byName)
	sorted.Stable(status.EphemeralContainerStatuses, byName)
	sortAsSpecified(spec.InitContainers, status.InitContainerStatuses)
}

// firstOfType removes, in place, each condition with the type of an earlier condition.
func firstOfType(list []v1.PodCondition) []v1.PodCondition {
	kept := list[:0]
	for _, c := range list {
		if podfacts.Condition(kept, c.Type) == nil {
			kept = append(kept, c)
		}
	}
	return kept
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

// sortAsSpecified sorts statuses in the order of the containers. Statuses without a container come
// last, by name.
func sortAsSpecified(containers []v1.Container, statuses []v1.ContainerStatus) {
	place := func(s *v1.ContainerStatus) int {
		for i := range containers {
			if containers[i].Name == s.Name {
				return i
			}
		}
		return len(containers)
	}
	sorted.Stable(statuses, func(a, b v1.ContainerStatus) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)), cmp.Compare(a.Name, b.Name))
	})
}

// wholeSeconds converts t to the value after encoding and decoding.
func wholeSeconds(t *metav1.Time) {
	if !t.IsZero() {
		t.Time = t.Truncate(time.Second).Local()
	}
}

// valid replaces invalid UTF-8 in the same way as JSON, so that the stored text equals the sent
// text.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cut returns at most limit bytes of s, cut between runes. s must be valid UTF-8.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
