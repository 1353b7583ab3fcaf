// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestUpstream141487ReadinessOfAReplacedContainer: the container and its agent die at different
// instants while the API server is unreachable. The next agent finds a container that is older than
// the agent, and a status of the container's predecessor.
func TestUpstream141487ReadinessOfAReplacedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := statustest.New(statustest.Options{Latency: 20 * time.Millisecond})
		require.NoError(t, err)
		node := nodetest.New(t, nodetest.Options{API: server})
		node.World.Script(fake.Target{Container: "c"}, fake.Script{ReadyAfter: 30 * time.Second})
		pod := node.Bind(nodetest.Pod("web", nodetest.Container("c"), func(p *v1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = httpGet("/ready", 5, 3)
		}))
		time.Sleep(time.Minute)
		first := server.Get(pod.UID).Status.ContainerStatuses[0]
		require.True(t, first.Ready)

		away, err := server.Inject(statustest.Fault{Err: apierrors.NewServiceUnavailable("partition")})
		require.NoError(t, err)
		died, ready := time.Now(), time.Duration(0)
		require.NoError(t, node.World.Kill(pod.UID, "c", 1))
		time.Sleep(3 * time.Second)
		node.CrashAgent(1)
		time.Sleep(3 * time.Second)
		server.Watch(func(p *v1.Pod) {
			if c := p.Status.ContainerStatuses[0]; ready == 0 && c.ContainerID != first.ContainerID && c.Ready {
				ready = time.Since(died)
			}
		})
		node.StartAgent()
		away.Clear()
		time.Sleep(time.Minute)
		second := server.Get(pod.UID).Status.ContainerStatuses[0]
		require.NotEqual(t, first.ContainerID, second.ContainerID)
		assert.True(t, second.Ready)
		assert.GreaterOrEqual(t, ready, 30*time.Second, "published as ready before it was\n%s", node.World.Journal())
	})
}
