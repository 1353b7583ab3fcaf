// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestSafety: the end of a pod is told when nothing may run, and everything else before.
func TestSafety(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var safe atomic.Bool
		var asked atomic.Int32
		mayRun := func(types.UID) bool {
			asked.Add(1)
			return !safe.Load()
		}
		n := newNode(t, statustest.Options{}, statusmanager.Options{Safety: statusmanager.SafetyFunc(mayRun), Resync: time.Hour})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		settle()
		assert.EqualValues(t, 1, asked.Load(), "nothing is left to do after the patch")
		s := status(v1.PodSucceeded, exited("main", 0))
		s.Reason = "Done"
		asked.Store(0)
		n.set(pod, s)
		settle()
		assert.LessOrEqual(t, asked.Load(), int32(3), "once for the change, and once for each step: a patch, and the end of the turn")
		api := n.api("a")
		assert.Equal(t, v1.PodRunning, api.Phase)
		assert.Empty(t, api.Reason)
		assert.NotNil(t, api.ContainerStatuses[0].State.Terminated)
		assert.Equal(t, 1, n.Stats().Unsynced)
		before := len(n.server.Journal())
		time.Sleep(10 * time.Minute)
		assert.Len(t, n.server.Journal(), before, "asking does not cost a request")
		safe.Store(true)
		time.Sleep(time.Minute + time.Second)
		assert.Equal(t, v1.PodSucceeded, n.api("a").Phase, "the resync finds out")
		assert.Zero(t, n.Stats().Unsynced)
	})
}

// TestDeletionIsSafe: nothing is deleted while something may run, even if the end was told.
func TestDeletionIsSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mayRun atomic.Bool
		n := newNode(t, statustest.Options{}, statusmanager.Options{
			Safety: statusmanager.SafetyFunc(func(types.UID) bool { return mayRun.Load() }), Resync: time.Hour,
		})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodSucceeded, exited("main", 0)))
		settle()
		mayRun.Store(true)
		pod, err := n.server.Delete("a")
		require.NoError(t, err)
		_, err = n.TerminatePod(pod)
		require.NoError(t, err)
		settle()
		require.NotNil(t, n.server.Get("a"))
		mayRun.Store(false)
		time.Sleep(time.Minute + time.Second)
		assert.Nil(t, n.server.Get("a"), "the resync finds out")
	})
}
