// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// The damaged record of a volume stays a leftover while the volume is in use without staging.
func TestRecordOfAVolumeThatIsNotStaged(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true}, edit, func(s *stage) {
		path := volumemanager.DeviceRecordPath(s.root, attachedName)
		s.files("volumemanager/devices/")
		require.NoError(s, os.WriteFile(path, []byte("{"), 0o600))
		require.NoError(s, s.mount(podClaiming("a", "c")))
		left, err := s.manager.Leftovers(s.Context(), func(types.UID) bool { return true })
		require.NoError(s, err)
		require.Len(s, left, 1)
		assert.Equal(s, path, left[0].Path)
		require.NoError(s, s.remove("a"))
	})
}

// Every wait for the end of a pod ends with Reconstruct, if the pod has no volume on disk.
func TestWaitsEndWithReconstruct(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{}, nil)
		var waits []func() error
		for _, uid := range []types.UID{"a", "b", "c"} {
			s.pods.Set(uid, volumetest.Gone)
			waits = append(waits, background(func() error { return s.manager.WaitForUnmount(t.Context(), uid) }))
		}
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, s.manager.Reconstruct(t.Context()))
		for _, wait := range waits {
			require.NoError(t, wait())
		}
		assert.Zero(t, time.Since(began))
	})
}

// Plan has the due operations of all volumes and pods, in order.
func TestPlanHasAllOperations(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{Shared: true}, func(o *volumemanager.Options) { o.Claims = claims() })
		ctx, cancel := context.WithCancel(t.Context())
		var waits []func() error
		for _, uid := range []types.UID{"b", "a"} {
			waits = append(waits, background(func() error { return s.manager.WaitForAttachAndMount(ctx, podClaiming(uid, "d", "c")) }))
		}
		synctest.Wait()
		var due []string
		for _, o := range s.manager.Plan() {
			assert.Equal(t, time.Now(), o.Queued)
			due = append(due, fmt.Sprint(o.Kind, " of ", o.Volume, " for ", o.PodUID))
		}
		assert.Equal(t, []string{
			"volume_mount of example.com/fake/pv-c for a", "volume_mount of example.com/fake/pv-c for b",
			"volume_mount of example.com/fake/pv-d for a", "volume_mount of example.com/fake/pv-d for b",
		}, due)
		assert.Empty(t, s.plugin.Calls())
		assert.Equal(t, time.Now(), s.manager.Snapshot().Taken)
		cancel()
		for _, wait := range waits {
			require.ErrorIs(t, wait(), context.Canceled)
		}
	})
}
