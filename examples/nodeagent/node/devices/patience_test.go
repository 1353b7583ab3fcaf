// SPDX-License-Identifier: Apache-2.0

package devices_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/podconfig"
)

// The wait for a plug-in has an end.
func TestThePlugInStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		leave := m.serve(p, "a b")
		first, second, third := podOf("first", 1), podOf("second", 1), podOf("third", 1)
		m.Apply(first)
		time.Sleep(time.Second)
		leave()
		require.Equal(t, "example.com/gpu 0/2", m.amounts())
		require.Equal(t, v1.ResourceHealthStatusUnknown, m.Status("first").ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Health)
		m.Apply(first, second)
		time.Sleep(devices.DefaultPatience - time.Second)
		require.Empty(t, m.Status("second").Phase)
		time.Sleep(2 * time.Second)
		require.Equal(t, "UnexpectedAdmissionError", m.Status("second").Reason)
		require.Equal(t, "Pod was rejected: Allocate failed due to cannot allocate unregistered device example.com/gpu, which is unexpected", m.Status("second").Message)
		require.Equal(t, "example.com/gpu 0/0", m.amounts(), "the name stays")
		require.Equal(t, v1.PodRunning, m.Status("first").Phase)

		defer m.serve(newPlugin(), "a b")()
		m.Apply(first, second, third)
		time.Sleep(time.Second)
		require.Equal(t, v1.PodRunning, m.Status("third").Phase)
	})
}

// A plug-in that crashes before its first list does not renew the wait. The wait begins anew when the
// agent starts.
func TestACrashingPlugInDoesNotRenewTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 90 * time.Second
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		leave := m.serve(p, "a")
		m.StopAgent()
		leave()
		m.wait = patience
		m.StartAgent()
		started := time.Now()
		m.Apply(podOf("first", 1))
		for time.Since(started) < patience {
			crashed := newPlugin()
			close(crashed.lists)
			require.ErrorContains(t, m.manager.Follow(t.Context(), gpu, crashed), "the connection is lost")
			require.Empty(t, m.Status("first").Phase, "after %s", time.Since(started))
			time.Sleep(5 * time.Second)
		}
		time.Sleep(time.Second)
		require.Equal(t, "UnexpectedAdmissionError", m.Status("first").Reason)
		require.Equal(t, "Pod was rejected: Allocate failed due to cannot allocate unregistered device example.com/gpu, which is unexpected", m.Status("first").Message)
	})
}

// A pod that was admitted waits in its worker, for the same time.
func TestThePlugInLeavesBetweenAdmissionAndAllocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := newMachine(t, podconfig.SourceAPI), newPlugin()
		leave := m.serve(p, "a b")
		p.set(func(p *plugin) { p.takes = 2 * time.Second })
		pod := podOf("first", 1)
		pod.Spec.InitContainers = []v1.Container{*pod.Spec.Containers[0].DeepCopy()}
		pod.Spec.InitContainers[0].Name = "init"
		m.Apply(pod)
		time.Sleep(time.Second)
		leave() // during the first of two calls
		time.Sleep(devices.DefaultPatience - time.Second)
		require.Equal(t, []string{"a"}, p.read(&p.calls))
		require.Equal(t, v1.PodPending, m.Status("first").Phase)
		time.Sleep(2 * time.Second)
		require.Equal(t, "UnexpectedAdmissionError", m.Status("first").Reason)
	})
}
