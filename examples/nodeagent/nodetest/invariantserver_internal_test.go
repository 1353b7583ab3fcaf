// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
)

// Each case is a history without a violation, and a change that has one.
func TestServerAndStopsAreJudged(t *testing.T) {
	// wrote returns a change that adds a status, which the agent writes after the last one.
	wrote := func(edit func(s *v1.PodStatus)) func(h *History) {
		return func(h *History) {
			next := h.Stored[len(h.Stored)-1].Pod.DeepCopy()
			next.ResourceVersion += "0"
			edit(&next.Status)
			h.Stored = append(slices.Clone(h.Stored), Stored{h.Taken, next})
		}
	}
	edited := func(edit func(pod *v1.Pod)) func(h *History) {
		return func(h *History) {
			h.Stored = slices.Clone(h.Stored)
			for i := range h.Stored {
				h.Stored[i].Pod = h.Stored[i].Pod.DeepCopy()
				edit(h.Stored[i].Pod)
			}
		}
	}
	runs := "bind p volume=data\nsleep 5s"
	deleted := "bind p volume=data grace=1\nsleep 5s\ndelete p\nsleep 1m"
	for _, c := range []struct {
		name, script string
		change       func(h *History)
		want         string
	}{
		{"phase goes back", runs, wrote(func(s *v1.PodStatus) { s.Phase = v1.PodPending }), "the phase goes from Running to Pending"},
		{"start time changes", runs, wrote(func(s *v1.PodStatus) { s.StartTime = new(metav1.Unix(7, 0)) }), "the start time goes from"},
		{"generation goes back", "bind p\nsleep 5s\nedit p v=2\nsleep 9s", wrote(func(s *v1.PodStatus) { s.ObservedGeneration = -1 }), "the observed generation goes from"},
		{"transition goes back", runs, wrote(func(s *v1.PodStatus) { s.Conditions[0].LastTransitionTime = metav1.Unix(7, 0) }), "the last transition of condition"},
		{"condition twice", runs, wrote(func(s *v1.PodStatus) { s.Conditions = append(s.Conditions, s.Conditions[0]) }), "a condition stands twice"},
		{"gate changes", "bind p gate=example.com/gate\nsleep 5s\ncondition p example.com/gate True\nsleep 5s", wrote(func(s *v1.PodStatus) {
			i := slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == "example.com/gate" })
			s.Conditions[i].Status = v1.ConditionFalse
		}), "condition example.com/gate of another client becomes"},
		{"count goes back", "behave p/c exit=1s,code=1 then serve\n" + "bind p\nsleep 20s", wrote(func(s *v1.PodStatus) { s.ContainerStatuses[0].RestartCount-- }), "the restart count of c goes from 1 to 0"},
		{"ended too early", runs, wrote(func(s *v1.PodStatus) { s.Phase = v1.PodFailed }), "is told to have ended, and"},
		{"not deleted by a client", deleted, edited(func(pod *v1.Pod) { pod.DeletionTimestamp = nil }), "no client has deleted it"},
		{"removed without the end of a container", deleted, edited(func(pod *v1.Pod) {
			for i := range pod.Status.ContainerStatuses {
				pod.Status.ContainerStatuses[i].Ready = true
			}
		}), "is removed from the API server: the status of container c"},
		{"removed without an end", deleted, edited(func(pod *v1.Pod) { pod.Status.Phase = v1.PodRunning }), "which has phase Running"},
		{"removed with a volume", deleted, func(h *History) {
			h.Volumes = slices.DeleteFunc(slices.Clone(h.Volumes), func(e VolumeEvent) bool { return e.What != VolumeReady })
		}, "its volume data is left"},
		{"removed too early", deleted, func(h *History) {
			h.Requests = slices.Clone(h.Requests)
			for i := range h.Requests {
				if h.Requests[i].Request == statusmanager.RequestDelete {
					h.Requests[i].At -= 2 * time.Second
				}
			}
			calls(h, fake.OpExited, "c", 1, later(2*time.Second))
		}, "is removed from the API server, and container-"},
		{"stopped without a cause", "apply p grace=1\nsleep 10s\nremove p\nsleep 1m", func(h *History) {
			h.Told = h.Told[:len(h.Told)-1]
		}, "is stopped without a cause"},
		{"sidecar stopped without a cause", "apply p grace=1 sidecar=s\nsleep 10s\nremove p\nsleep 1m", func(h *History) {
			h.Told = h.Told[:len(h.Told)-1]
			calls(h, fake.OpStopContainer, "c", 1, func(e *fake.Entry) { e.Op = fake.OpList })
		}, "/s) is stopped without a cause"},
		{"probe did not fail", "apply p live=c\nsleep 11s\nsick p/c\nsleep 1m", func(h *History) {
			h.Probes = slices.Clone(h.Probes)
			for i := range h.Probes {
				h.Probes[i].Well = true
			}
		}, "is stopped without a cause"},
		{"started after its end", "behave p/c exit=1s,code=1\napply p restart=Never\nsleep 1m", func(h *History) {
			h.Calls = slices.Clone(h.Calls)
			for _, op := range []fake.Op{fake.OpCreateContainer, fake.OpStartContainer} {
				again := *oneCall(h, op, "c")
				again.ID = "again"
				later(5 * time.Second)(&again)
				h.Calls = append(h.Calls, again)
			}
		}, "has ended for good with code 1"},
		{"other operating system", "apply p\nsleep 5s", func(h *History) {
			h.Told = slices.Clone(h.Told)
			for i := range h.Told {
				for j, pod := range h.Told[i].Pods {
					pod = pod.DeepCopy()
					pod.Spec.OS = &v1.PodOS{Name: v1.Windows}
					h.Told[i].Pods = slices.Clone(h.Told[i].Pods)
					h.Told[i].Pods[j] = pod
				}
			}
		}, "its pod is of another operating system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := lived(t, c.script)
			require.NoError(t, Check(h))
			c.change(&h)
			require.ErrorContains(t, Check(h), c.want)
		})
	}
}
