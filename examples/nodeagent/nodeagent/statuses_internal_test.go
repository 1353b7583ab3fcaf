// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What an API server says first may be older than what it was told last; what it says
// after that counts until there is a word of the agent's own.
func TestStatusThatComesLater(t *testing.T) {
	pod := func(restarts int32) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", RestartCount: restarts}}}}
	}
	s := newStatuses(nil)
	s.report = func(*v1.Pod, v1.PodStatus) {}
	known := func() int32 { return s.get(pod(99)).ContainerStatuses[0].RestartCount }

	s.add(pod(0))
	require.EqualValues(t, 0, known())
	_, said := s.published("u")
	require.False(t, said, "nobody has looked yet")
	s.set(pod(0), pod(0).Status) // nothing new
	_, said = s.published("u")
	require.True(t, said, "it is true")
	s.add(pod(1))
	require.EqualValues(t, 1, known(), "the newer word")
	s.set(pod(1), pod(2).Status)
	s.add(pod(1))
	require.EqualValues(t, 2, known(), "the agent's own")
	s.drop("u")
	s.add(pod(3))
	require.EqualValues(t, 3, known(), "a new life")
}
