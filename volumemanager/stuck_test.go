// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

var errBusy = errors.New("target is busy")

// Issues 72604, 85834: a pod is terminating for ever after a restart, because the data for
// unmounting its volumes is lost: the pod, its claim, or the driver's objects. Here the record on
// disk is enough, and the error of a wait names the mounted volumes and the reason.
func TestUpstream72604TearDownNeedsNothingButTheDisk(t *testing.T) {
	reachable := true
	options := volumetest.Options{Shared: true, Staged: true, Behave: failing(volumetest.OpTearDown, 3, errBusy)}
	play(t, options, withClaims(&reachable), func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		s.stop()
		reachable = false
		s.pods.Set("a", volumetest.Gone)
		s.renew()
		s.start()
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var left *volumemanager.UnmountError
		require.ErrorAs(s, s.manager.WaitForUnmount(ctx, "a"), &left)
		assert.Equal(s, []string{"example.com/fake/pv-c"}, left.Mounted)
		require.ErrorIs(s, left, errBusy)
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		synctest.Wait()
		assert.Empty(s, s.plugin.Mounted())
		assert.Empty(s, s.plugin.Staged())
	})
}

// Issue 101378: the kubelet loses track of a volume whose unmount has failed, at the latest in a
// restart, and the volume stays mounted. Here the volume is uncertain, and the unmount is retried
// until it succeeds, across any number of restarts.
func TestUpstream101378FailedUnmountIsNotForgotten(t *testing.T) {
	busy := true
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpTearDown && busy {
			return volumetest.Behaviour{Err: errBusy}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		for range 3 {
			ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
			s.pods.Set("a", volumetest.Gone)
			require.ErrorIs(s, s.manager.WaitForUnmount(ctx, "a"), errBusy)
			cancel()
			one := s.manager.Snapshot().Volumes[0].Pods[0]
			assert.Equal(s, volumemanager.StateUncertain, one.State)
			assert.NotZero(s, one.Failures)
			assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
			assert.FileExists(s, s.recordOf("a", "v"))
			s.restart()
		}
		busy = false
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		assert.Empty(s, s.plugin.Mounted())
		assert.NoFileExists(s, s.recordOf("a", "v"))
	})
}

// Issue 113426: in the kubelet, unstaging fails while a pod still has the volume; after the last
// pod, unstaging waits for its back-off, up to 2 min 2 s. Here unstaging is not tried before, and
// starts at once after the last pod.
func TestUpstream113426UnstagedAtOnceAfterTheLastPod(t *testing.T) {
	options := volumetest.Options{Shared: true, Staged: true, Behave: failing(volumetest.OpTearDown, 8, errBusy)}
	patient := func(o *volumemanager.Options) {
		o.Claims = claims()
		o.SetLimits(volumemanager.Limits{Wait: 24 * time.Hour})
	}
	play(t, options, patient, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		require.NoError(s, s.mount(podClaiming("b", "c")))
		first, second := background(func() error { return s.remove("a") }), background(func() error { return s.remove("b") })
		time.Sleep(time.Minute)
		assert.NotContains(s, s.plugin.Journal(), "UnmountDevice pv-c", "pods have it")
		require.NoError(s, errors.Join(first(), second()))
		began := time.Now()
		synctest.Wait()
		assert.Zero(s, time.Since(began))
		assert.Empty(s, s.plugin.Staged())
		count := 0
		for _, c := range s.plugin.Calls() {
			if c.Op == volumetest.OpUnmountDevice {
				count++
			}
		}
		assert.Equal(s, 1, count)
	})
}

// Issue 65110: an unmount that hangs keeps a pod terminating, without any report. Here Snapshot
// shows the unmount with its deadline, other volumes of the pod are not blocked, and the pod is
// gone the moment the unmount returns.
func TestUpstream65110HungUnmountIsSeen(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpTearDown && c.Volume == "remote" {
			return volumetest.Behaviour{Hang: volumetest.HangForever}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "remote", "one", "two")))
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
		defer cancel()
		s.pods.Set("a", volumetest.Gone)
		err := s.manager.WaitForUnmount(ctx, "a")
		require.ErrorContains(s, err, "remote")
		require.ErrorContains(s, err, "under way since")
		assert.Equal(s, []string{"a/remote"}, s.plugin.Mounted())
		ops := s.manager.Snapshot().Operations
		require.Len(s, ops, 1)
		assert.Equal(s, volumemanager.OpUnmount, ops[0].Kind)
		assert.True(s, ops[0].Deadline.Before(time.Now()), "one that is past its deadline hangs")
		wait := background(func() error { return s.manager.WaitForUnmount(s.Context(), "a") })
		synctest.Wait()
		began := time.Now()
		s.plugin.Release()
		require.NoError(s, wait())
		assert.Zero(s, time.Since(began))
	})
}

// A CSIDriver object without attaching may become known later than its volume, which is found on
// disk.
func TestVolumeMayTurnOutToNeedNoAttaching(t *testing.T) {
	needed := true
	plugin := func(o *volumemanager.Options) {
		o.Plugins = []volumemanager.Plugin{choosy{o.Plugins[0].(*volumetest.Plugin), &needed}}
		o.Claims, o.Node = claims(), nothingAttached{}
	}
	play(t, volumetest.Options{Shared: true, Staged: true, Attachable: true}, plugin, func(s *stage) {
		needed = false
		require.NoError(s, s.mount(podClaiming("a", "c")))
		assert.Empty(s, s.manager.GetVolumesInUse())
		needed = true
		s.restart()
		assert.Len(s, s.manager.GetVolumesInUse(), 1, "in doubt it is in use")
		needed = false
		require.NoError(s, s.mount(podClaiming("a", "c")))
		assert.Empty(s, s.manager.GetVolumesInUse())
	})
}

// choosy is a plugin that learns later whether its volumes need attaching.
type choosy struct {
	*volumetest.Plugin
	attach *bool
}

func (c choosy) Attachable(volumemanager.Spec) bool { return *c.attach }

// nothingAttached is a Node without attached volumes.
type nothingAttached struct{}

func (nothingAttached) AttachedVolumes(context.Context) (map[v1.UniqueVolumeName]string, error) {
	return nil, nil
}
