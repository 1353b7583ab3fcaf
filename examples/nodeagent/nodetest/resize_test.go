// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func cpu(amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	}
}

func condition(status v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// A resize in place restarts nothing, and the status says how far it has come.
func TestResizeInPlaceIsToldInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("100m")))
		time.Sleep(time.Second)
		before := node.Status("web").ContainerStatuses[0]

		fault, err := node.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Err: errors.New("cgroup is busy")})
		require.NoError(t, err)
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("200m")))
		time.Sleep(time.Second)
		c := condition(node.Status("web"), v1.PodResizeInProgress)
		require.NotNil(t, c)
		require.Equal(t, v1.PodReasonError, c.Reason)
		require.Contains(t, c.Message, "cgroup is busy")
		has := node.Status("web").ContainerStatuses[0].Resources.Limits[v1.ResourceCPU]
		require.Equal(t, "100m", has.String(), "what it has, not what it is to have")

		fault.Clear()
		time.Sleep(time.Minute)
		require.Nil(t, condition(node.Status("web"), v1.PodResizeInProgress))
		after := node.Status("web").ContainerStatuses[0]
		has = after.Resources.Limits[v1.ResourceCPU]
		require.Equal(t, "200m", has.String())
		require.Equal(t, before.ContainerID, after.ContainerID)
	})
}
