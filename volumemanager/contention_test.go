// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// Issues 105642, 109011: the kubelet mounts the pods of a shared volume one after the other.
func TestUpstream109011PodsOfASharedVolumeAreMountedAtOnce(t *testing.T) {
	behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: 500 * time.Millisecond} }
	options := volumetest.Options{Shared: true, Staged: true, Behave: behave}
	play(t, options, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		began := time.Now()
		var waits []func() error
		for i := range 20 {
			uid := types.UID(fmt.Sprint(i))
			waits = append(waits, background(func() error { return s.mount(podClaiming(uid, "c")) }))
		}
		for _, wait := range waits {
			require.NoError(s, wait())
		}
		assert.Equal(s, time.Second, time.Since(began), "it is staged once, then set up for all at once")
	})
}

// Issues 70044, 122342: the back-off of a mount, up to 2 min 2 s, delays the unmount, and the pod
// is terminating for as long.
func TestUpstream122342UnmountIgnoresTheBackoffOfMounts(t *testing.T) {
	options := volumetest.Options{Behave: failing(volumetest.OpSetUp, always, errors.New("no"))}
	play(t, options, nil, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		retry := s.manager.Snapshot().Volumes[0].Pods[0].RetryAt
		require.Greater(s, time.Until(retry), 5*time.Second, "the back-off has grown")
		began := time.Now()
		require.NoError(s, s.remove("a"))
		assert.Zero(s, time.Since(began))
		require.Error(s, wait())
	})
}

// In the kubelet, waiting for pending operations never ends while an operation is in back-off.
// Here, a back-off does not delay the end of Run.
func TestUpstreamRunEndsDuringABackoff(t *testing.T) {
	options := volumetest.Options{Behave: failing(volumetest.OpSetUp, always, errors.New("no"))}
	play(t, options, nil, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(time.Minute)
		synctest.Wait()
		began := time.Now()
		s.stop()
		assert.Zero(s, time.Since(began))
		require.ErrorIs(s, wait(), volumemanager.ErrStopped)
	})
}

// An operation without an end counts in the limit for a second.
func TestOperationsThatHangGiveTheirSlotsBack(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.PodUID == "a" && c.Op == volumetest.OpSetUp {
			return volumetest.Behaviour{Delay: time.Minute}
		}
		return volumetest.Behaviour{}
	}
	narrow := func(o *volumemanager.Options) { o.SetLimits(volumemanager.Limits{Parallel: 1}) }
	play(t, volumetest.Options{Behave: behave}, narrow, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		synctest.Wait()
		began := time.Now()
		require.NoError(s, s.mount(podWith("b", "v")))
		assert.Equal(s, time.Second, time.Since(began))
		require.NoError(s, wait())
	})
}

// Without Run, Reconcile does all that is due: it mounts all volumes of all pods.
func TestReconcileDoesAllThatIsDue(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{}, nil)
		var waits []func() error
		for _, uid := range []types.UID{"a", "b"} {
			waits = append(waits, background(func() error { return s.mount(podWith(uid, "v", "w")) }))
		}
		synctest.Wait()
		require.NoError(t, s.manager.Reconcile(t.Context()))
		for _, wait := range waits {
			require.NoError(t, wait())
		}
	})
}
