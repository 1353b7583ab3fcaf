// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/statusmanager"
)

func TestNormalize(t *testing.T) {
	pod := testPod("a", containers("b", "a"), initContainers("second", "first"))
	precise := metav1.NewTime(time.Unix(1_700_000_000, 123_456_789).UTC())
	whole := metav1.Unix(1_700_000_000, 0)
	s := withInit(status(v1.PodRunning, running("b"), exited("a", 1)), running("gone"), running("first"), running("second"))
	s.EphemeralContainerStatuses = []v1.ContainerStatus{running("y"), running("x")}
	s.StartTime = &precise
	s.Conditions = []v1.PodCondition{{Type: v1.PodReady, LastProbeTime: precise, LastTransitionTime: precise, Message: "a\xffb"}}
	s.ContainerStatuses[0].State.Running.StartedAt = precise
	s.ContainerStatuses[1].State.Terminated.StartedAt = precise
	s.ContainerStatuses[1].LastTerminationState.Terminated = &v1.ContainerStateTerminated{FinishedAt: precise, Message: strings.Repeat("x", 4000)}
	statusmanager.Normalize(&pod.Spec, &s)

	names := func(list []v1.ContainerStatus) (out []string) {
		for _, c := range list {
			out = append(out, c.Name)
		}
		return out
	}
	assert.Equal(t, []string{"a", "b"}, names(s.ContainerStatuses))
	assert.Equal(t, []string{"second", "first", "gone"}, names(s.InitContainerStatuses), "as in the spec")
	assert.Equal(t, []string{"x", "y"}, names(s.EphemeralContainerStatuses))
	assert.Equal(t, "a\uFFFDb", s.Conditions[0].Message)
	assert.Len(t, s.ContainerStatuses[0].LastTerminationState.Terminated.Message, 12288/4)
	for _, got := range []metav1.Time{*s.StartTime, s.Conditions[0].LastProbeTime, s.Conditions[0].LastTransitionTime,
		s.ContainerStatuses[1].State.Running.StartedAt, s.ContainerStatuses[0].State.Terminated.StartedAt,
		s.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt} {
		assert.Equal(t, whole, got)
	}
}

// FuzzNormalizeMessage: a message comes back from the API server as it was sent, and in the bounds of the server.
func FuzzNormalizeMessage(f *testing.F) {
	f.Add("plain", uint8(0))
	f.Add(strings.Repeat("ü€\U0001F600", 3000), uint8(3))
	f.Add(strings.Repeat("x", 12287)+"€", uint8(0))
	f.Add("\xff\xfe\xed\xa0\x80", uint8(1))
	f.Fuzz(func(t *testing.T, message string, more uint8) {
		pod := testPod("a")
		for range more {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{})
		}
		c := exited("main", 1)
		c.State.Terminated.Message = message
		s := status(v1.PodFailed, c)
		s.Message = message
		statusmanager.Normalize(&pod.Spec, &s)
		got := s.ContainerStatuses[0].State.Terminated.Message
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), 12288/(1+int(more)))
		back := v1.PodStatus{}
		require.NoError(t, json.Unmarshal([]byte(text(t, s)), &back))
		require.True(t, statusmanager.Equal(&s, &back))
		again := *s.DeepCopy()
		statusmanager.Normalize(&pod.Spec, &again)
		require.Equal(t, s, again)
	})
}
