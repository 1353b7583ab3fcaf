// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// comparing is a Setter that compares the stored status with the status after the encoded patch.
type comparing struct {
	*statustest.Client
	t            *testing.T
	server       *statustest.Server
	set, patched int
}

// SetStatus implements statusmanager.Setter.
func (c *comparing) SetStatus(ctx context.Context, ref statusmanager.PodRef, p statusmanager.Patch) (*v1.Pod, error) {
	c.set++
	patch, err := p.Encode()
	require.NoError(c.t, err)
	want := applyPatch(c.t, c.server.Get(ref.UID).Status, patch)
	pod, err := c.Client.SetStatus(ctx, ref, p)
	if err == nil {
		assert.True(c.t, statusmanager.Equal(&want, &pod.Status), "%s", patch)
		assert.ElementsMatch(c.t, conditionTypes(want), conditionTypes(pod.Status))
	}
	return pod, err
}

// PatchStatus implements statusmanager.Patcher.
func (c *comparing) PatchStatus(ctx context.Context, ref statusmanager.PodRef, patch []byte) (*v1.Pod, error) {
	c.patched++
	return c.Client.PatchStatus(ctx, ref, patch)
}

func conditionTypes(s v1.PodStatus) (all []v1.PodConditionType) {
	for _, c := range s.Conditions {
		all = append(all, c.Type)
	}
	return all
}

// TestASetterStoresWhatThePatchStores: a Setter gets the same statuses as a Patcher gets patches, also
// after changes of other writers. After a request of unknown outcome the whole status is patched.
func TestASetterStoresWhatThePatchStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{JournalLimit: -1})
		c := &comparing{Client: server.NewClient(0), t: t, server: server}
		m := newManager(t, statusmanager.Options{Patcher: c, Jitter: func(d time.Duration) time.Duration { return d }})
		server.Watch(m.Observed)
		n := &node{Manager: m, t: t, server: server, stop: start(t, m)}
		defer n.stop()
		pod := server.Create(testPod("a", containers("b", "a")))
		other := v1.PodCondition{Type: "example.com/other", Status: v1.ConditionTrue}
		lives := []v1.PodStatus{
			status(v1.PodPending, waiting("a", "ContainerCreating"), waiting("b", "ContainerCreating")),
			status(v1.PodRunning, running("a"), waiting("b", "ContainerCreating")),
			status(v1.PodRunning, ready("a"), ready("b")),
			status(v1.PodRunning, ready("a"), running("b")),
		}
		for i, s := range lives {
			if i == 2 {
				_, err := server.Change(pod.UID, func(pod *v1.Pod) { pod.Status.Conditions = slices.Insert(pod.Status.Conditions, 0, other) })
				require.NoError(t, err)
			}
			n.set(pod, s)
			settle()
			assert.Equal(t, i+1, c.set)
			assert.Equal(t, s.Phase, n.api("a").Phase)
		}
		assert.Contains(t, conditionTypes(n.api("a")), other.Type)
		assert.Zero(t, c.patched)
		_, err := server.Inject(statustest.Fault{Request: statusmanager.RequestPatch, Times: 1, DoneButReplyLost: true})
		require.NoError(t, err)
		n.set(pod, status(v1.PodRunning, exited("a", 1), running("b")))
		settle()
		assert.Equal(t, 1, c.patched, "the outcome was unknown")
		assert.NotNil(t, n.api("a").ContainerStatuses[0].State.Terminated)
	})
}

// A status that the server has already is synced, and a Setter is not called.
func TestASetterIsNotCalledWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		c := &comparing{Client: server.NewClient(0), t: t, server: server}
		pod := server.Create(testPod("a"))
		for range 2 {
			m := newManager(t, statusmanager.Options{Patcher: c})
			m.Observed(server.Get("a"))
			start(t, m)
			_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, m.WaitSynced(ctx, "a"))
		}
		assert.Equal(t, 1, c.set)
	})
}

// A status that the server confirms to a Setter but does not store is not sent again as a patch.
func TestARefusedSetIsNotPatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, statustest.Options{})
		c := &refusing{Client: server.NewClient(0), server: server}
		m := newManager(t, statusmanager.Options{Patcher: c})
		start(t, m)
		pod := server.Create(testPod("a"))
		m.Observed(pod)
		_, err := m.SetPodStatus(pod, status(v1.PodRunning, running("main")))
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, [2]int{1, 0}, [2]int{c.set, c.patched})
	})
}

// refusing confirms each status and stores none.
type refusing struct {
	*statustest.Client
	server       *statustest.Server
	set, patched int
}

// SetStatus implements statusmanager.Setter.
func (c *refusing) SetStatus(_ context.Context, ref statusmanager.PodRef, _ statusmanager.Patch) (*v1.Pod, error) {
	c.set++
	return c.server.Get(ref.UID), nil
}

// PatchStatus implements statusmanager.Patcher.
func (c *refusing) PatchStatus(_ context.Context, ref statusmanager.PodRef, _ []byte) (*v1.Pod, error) {
	c.patched++
	return c.server.Get(ref.UID), nil
}
