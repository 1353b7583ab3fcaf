// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"strings"
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

// Each thing about a resize is said once, in the kubelet's words.
func TestResizeInPlaceIsToldInEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("100m")))
		time.Sleep(time.Second)
		require.Empty(t, resizeEvents(node), "a start is none")
		fault, err := node.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpUpdateResources}, Err: errors.New("cgroup is busy")})
		require.NoError(t, err)
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("200m")))
		time.Sleep(5 * time.Minute) // it is tried again and again
		given := `{"containers":[{"name":"c","resources":{"limits":{"cpu":"200m"},"requests":{"cpu":"200m"}}}],"generation":0`
		want := []string{
			"Normal ResizeStarted Pod resize started: " + given + "}",
			`Warning ResizeError Pod resize error: ` + given + `,"error":"container c, cpu limit 100m to 200m, cpu request 100m to 200m: cgroup is busy"}`,
		}
		require.Equal(t, want, resizeEvents(node))

		fault.Clear()
		time.Sleep(5 * time.Minute)
		want = append(want, "Normal ResizeCompleted Pod resize completed: "+given+"}")
		require.Equal(t, want, resizeEvents(node))
		node.RestartAgent()
		time.Sleep(5 * time.Minute)
		require.Equal(t, want, resizeEvents(node), "and not by the next agent")
	})
}

// A resize that restarts the container is reported, too.
func TestResizeByRestartIsToldInEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restarted := func(p *v1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
		}
		node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI})
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("100m"), restarted))
		time.Sleep(time.Second)
		node.Apply(nodetest.Pod("web", nodetest.Container("c"), cpu("200m"), restarted))
		time.Sleep(time.Minute)
		require.Len(t, starts(node, "c"), 2)
		require.Equal(t, []string{"web"}, eventsOf(node, "ResizeStarted"))
		require.Equal(t, []string{"web"}, eventsOf(node, "ResizeCompleted"))
	})
}

func resizeEvents(n *nodetest.Node) (told []string) {
	for _, e := range n.History().Events {
		if strings.HasPrefix(e.Reason, "Resize") {
			told = append(told, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	return told
}
