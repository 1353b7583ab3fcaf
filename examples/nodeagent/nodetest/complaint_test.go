// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// The events of a pod explain why the pod does not start or end (66574, 51835), once for each
// reason.
func TestAPodThatDoesNotGetOnSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		n := nodetest.New(t, nodetest.Options{Agent: func(o *node.Options) { o.Events = s }})
		said := func(event string) int {
			return len(slices.DeleteFunc(s.now().events, func(other string) bool { return other != event }))
		}
		n.Apply(nodetest.Pod("web", nodetest.Container("c")))
		pass(n, time.Second)
		away, err := n.World.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errors.New("connection refused")})
		require.NoError(t, err)
		pass(n, 10*time.Minute)
		require.Equal(t, 1, said("Pod web Warning FailedSync"))
		away.Clear()
		pass(n, 10*time.Minute)

		stuck, err := n.World.Inject(fake.Fault{Match: func(c fake.Call) bool { return c.Op == fake.OpStopContainer || c.Op == fake.OpStopSandbox }, Err: errors.New("device or resource busy")})
		require.NoError(t, err)
		n.Apply()
		pass(n, 10*time.Minute)
		require.Equal(t, v1.PodRunning, n.Status("web").Phase)
		require.Equal(t, 1, said("Pod web Warning FailedKillPod"))
		stuck.Clear()
		pass(n, time.Minute)
		require.Empty(t, n.Agent.Pods())
		require.Equal(t, 1, said("Pod web Warning FailedSync"))
		require.Equal(t, 1, said("Pod web Warning FailedKillPod"))
	})
}
