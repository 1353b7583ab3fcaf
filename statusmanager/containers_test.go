// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
)

func TestAnyRunning(t *testing.T) {
	runs := []v1.ContainerStatus{{}, {State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	ended := []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	for name, tc := range map[string]struct {
		status v1.PodStatus
		want   bool
	}{
		"regular":   {v1.PodStatus{ContainerStatuses: runs}, true},
		"init":      {v1.PodStatus{InitContainerStatuses: runs, ContainerStatuses: ended}, true},
		"ephemeral": {v1.PodStatus{EphemeralContainerStatuses: runs, ContainerStatuses: ended}, true},
		"none":      {v1.PodStatus{InitContainerStatuses: ended, ContainerStatuses: ended, EphemeralContainerStatuses: ended}, false},
		"empty":     {v1.PodStatus{}, false},
	} {
		assert.Equal(t, tc.want, anyRunning(&tc.status), name)
	}
}
