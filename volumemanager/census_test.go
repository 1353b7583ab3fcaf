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

	v1 "k8s.io/api/core/v1"
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

// Without a Node, volumes are neither reported nor attached.
func TestWithoutANodeNothingIsAttached(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true, Staged: true, Attachable: true}, edit, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		assert.Equal(s, []string{"MountDevice pv-c", "SetUp a/pv-c"}, s.plugin.Journal())
		assert.Empty(s, s.manager.GetVolumesInUse())
		require.NoError(s, s.mount(podClaiming("b", "c")))
		pods := s.manager.Snapshot().Volumes[0].Pods
		require.Len(s, pods, 2)
		assert.Equal(s, []types.UID{"a", "b"}, []types.UID{pods[0].UID, pods[1].UID})
	})
}

// A container gets no volume that is not known to be mounted.
func TestUncertainVolumeHasNoMount(t *testing.T) {
	play(t, volumetest.Options{Folders: true}, nil, func(s *stage) {
		pod := podWith("a", "v")
		require.NoError(s, s.mount(pod))
		s.restart()
		path, readOnly, relabel, err := s.manager.MountOf(s.Context(), pod, &pod.Spec.Containers[0], 0)
		require.EqualError(s, err, `volume "v": is not mounted`)
		assert.Equal(s, []any{"", false, false}, []any{path, readOnly, relabel})
	})
}

// A single file in the place of the volumes of a pod that is gone may be data, and stays.
func TestFileInPlaceOfVolumesStays(t *testing.T) {
	play(t, volumetest.Options{}, noMounts, func(s *stage) {
		s.files("pods/a/volumes")
		s.pods.Set("a", volumetest.Gone)
		require.ErrorContains(s, s.manager.CleanupOrphan("a"), "volumes are left at a/volumes")
		assert.FileExists(s, s.root+"/pods/a/volumes")
	})
}

// The staged volumes of a plugin that is no more are named.
func TestStagedVolumeWithoutAPlugin(t *testing.T) {
	play(t, volumetest.Options{Shared: true, Staged: true}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		s.stop()
		s.options.Plugins = []volumemanager.Plugin{folders{}}
		s.renew()
		require.ErrorContains(s, s.manager.Reconstruct(s.Context()), `staged volume example.com/fake/pv-c: there is no plugin "example.com/fake"`)
		left, err := s.manager.Leftovers(s.Context(), nobody)
		require.NoError(s, err)
		require.Len(s, left, 1)
		assert.Equal(s, volumemanager.LeftoverRecord, left[0].Kind)
		assert.Equal(s, "no staged volume of that record is known", left[0].Why)
	})
}

// The end of a pod does not wait for the back-off of earlier teardowns.
func TestWaitForUnmountEndsTheBackoff(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, 9, errBusy)}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		s.manager.PodChanged("a")
		for len(s.ended()) < 1+9 {
			time.Sleep(time.Second)
		}
		retry := s.manager.Snapshot().Volumes[0].Pods[0].RetryAt
		require.Greater(s, time.Until(retry), time.Minute)
		began := time.Now()
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		assert.Zero(s, time.Since(began))
	})
}

// A call for the end of a pod ends no back-off of a setup: the pod may still want its volume.
func TestWaitForUnmountRepeatsNoSetUp(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpSetUp, 99, errBusy)}, nil, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(time.Minute)
		before := len(s.plugin.Calls())
		for range 20 {
			ctx, cancel := context.WithTimeout(s.Context(), time.Millisecond)
			require.Error(s, s.manager.WaitForUnmount(ctx, "a"))
			cancel()
		}
		synctest.Wait()
		assert.LessOrEqual(s, len(s.plugin.Calls()), before+1)
		require.ErrorIs(s, wait(), errBusy)
		require.NoError(s, s.remove("a"))
	})
}

// A plugin that attaches nothing needs no attaching on a node with an attacher.
func TestPluginThatAttachesNothing(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Plugins, o.Node = []volumemanager.Plugin{plain{}}, &cluster{} }
	play(t, volumetest.Options{}, edit, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		assert.Empty(s, s.manager.GetVolumesInUse())
		require.NoError(s, s.remove("a"))
	})
}

// A volume on disk that the plugin cannot name any more is the pod's own.
func TestVolumeWithoutANameAfterARestart(t *testing.T) {
	play(t, volumetest.Options{Shared: true}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		s.options.Plugins = []volumemanager.Plugin{vague{Plugin: s.plugin, id: errBusy}}
		s.restart()
		volumes := s.manager.Snapshot().Volumes
		require.Len(s, volumes, 1)
		assert.EqualValues(s, "example.com/fake/a-pv-c", volumes[0].Name)
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// A folder of volumes that cannot be read is an error, because it may have volumes.
func TestFolderOfVolumesThatCannotBeRead(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{}, nil)
		s.files("pods/a/volumes/")
		require.NoError(t, os.Symlink("/", root+"/pods/a/volumes/x.com~y"))
		require.ErrorContains(t, s.manager.Reconstruct(t.Context()), "x.com~y")

		s.renew()
		require.NoError(t, os.Rename(root+"/pods", root+"/was"))
		require.NoError(t, os.Symlink("/", root+"/pods"))
		require.ErrorContains(t, s.manager.Reconstruct(t.Context()), "pods", "the folder of all pods")
		_, err := s.manager.Leftovers(t.Context(), nobody)
		require.ErrorContains(t, err, "pods")

		s.renew()
		require.NoError(t, os.Remove(root+"/pods"))
		s.files("pods/a/")
		require.NoError(t, os.Symlink("/", root+"/pods/a/volumes"))
		require.ErrorContains(t, s.manager.Reconstruct(t.Context()), "volumes", "the folder of a pod's volumes")
	})
}

// Every volume that a pod uses without defining it is named, and none that can be set up waits for it.
func TestEachUndefinedVolumeIsNamed(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		pod := podWith("a", "v")
		use(pod, "y")
		use(pod, "x")
		var e *volumemanager.MountError
		require.ErrorAs(s, s.mount(pod), &e)
		assert.Equal(s, []string{"x", "y"}, e.Unprocessed)
		require.NoError(s, s.remove("a"))
	})
}

// Requested is when the pod began to wait, also if the calls that wait end and are repeated.
func TestRequestedIsTheFirstOfSeveralCalls(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpSetUp, 3, errBusy)}, nil, func(s *stage) {
		began := time.Now()
		for range 2 {
			ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
			require.ErrorIs(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")), errBusy)
			cancel()
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(s, s.mount(podWith("a", "v")))
		synctest.Wait() // the wait may end before the report of the operation
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Len(s, s.ends, 4)
		for _, end := range s.ends {
			assert.Equal(s, began, end.Requested)
		}
	})
}

// All staged volumes of an earlier agent are found, and unstaged if no pod needs them.
func TestAllStagedVolumesAreFound(t *testing.T) {
	play(t, volumetest.Options{Shared: true, Staged: true}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c", "d", "e")))
		s.stop()
		s.pods.Set("a", volumetest.Gone)
		require.NoError(s, os.RemoveAll(s.root+"/pods"))
		s.renew()
		require.NoError(s, s.manager.Reconstruct(s.Context()))
		assert.Len(s, s.manager.Snapshot().Volumes, 3)
	})
}

// A block volume whose plugin has no block volumes any more is torn down all the same.
func TestBlockVolumeOfAnEarlierPlugin(t *testing.T) {
	edit := func(o *volumemanager.Options) {
		o.Claims = claims(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock) })
	}
	play(t, volumetest.Options{Shared: true}, edit, func(s *stage) {
		pod := podClaiming("a", "c")
		c := &pod.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = nil, []v1.VolumeDevice{{Name: "of-c", DevicePath: "/dev/c"}}
		require.NoError(s, s.mount(pod))
		s.options.Plugins = []volumemanager.Plugin{plain{}}
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.manager.Snapshot().Volumes)
	})
}
