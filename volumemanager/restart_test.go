// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// withClaims gives a stage claims that can be unreachable.
func withClaims(reachable *bool) func(*volumemanager.Options) {
	return func(o *volumemanager.Options) {
		o.Claims = volumemanager.ClaimsFunc(func(ctx context.Context, pod *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
			if !*reachable {
				return volumemanager.Spec{}, errors.New("connection refused")
			}
			return claims()(ctx, pod, vol)
		})
	}
}

// Issues 120150, 101791, 52683, 53246: after a restart without an answer of the API server, the
// kubelet unmounts the volumes of running pods.
func TestUpstream120150RestartWithoutClusterUnmountsNothing(t *testing.T) {
	reachable := true
	options := volumetest.Options{Shared: true, Staged: true}
	play(t, options, withClaims(&reachable), func(s *stage) {
		pod := podClaiming("a", "c")
		require.NoError(s, s.mount(pod))
		reachable = false
		s.restart()
		time.Sleep(time.Hour)
		assert.Equal(s, []string{"MountDevice pv-c", "SetUp a/pv-c"}, s.plugin.Journal(), "nobody touches the volume")
		assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		assert.Empty(s, s.manager.GetMountedVolumesForPod("a"))
		require.NoError(s, s.mount(pod), "a pod goes on with the volume that is recorded")
		assert.Equal(s, []string{"MountDevice pv-c", "SetUp a/pv-c (reconstructed)"}, s.plugin.Journal()[2:])
		require.Error(s, s.mount(podClaiming("b", "c")), "another pod has to wait for the cluster")
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
		synctest.Wait() // the wait ends with the volumes that the pod has
		assert.Empty(s, s.plugin.Staged(), "what is staged is taken down by its own record")
	})
}

// Measured: the kubelet cannot reconstruct a local volume that is a folder. The record contains the
// whole Spec.
func TestUpstreamReconstructionHasTheWholeSpec(t *testing.T) {
	folder := func(pv *v1.PersistentVolume) { pv.Spec.Local = &v1.LocalVolumeSource{Path: "/mnt/disk"} }
	var seen []volumemanager.Spec
	options := volumetest.Options{Supports: func(spec volumemanager.Spec) bool {
		seen = append(seen, spec)
		return true
	}}
	play(t, options, func(o *volumemanager.Options) { o.Claims = claims(folder) }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		data, err := os.ReadFile(s.recordOf("a", "pv-c"))
		require.NoError(s, err)
		assert.Contains(s, string(data), "/mnt/disk")
		seen = nil
		s.options.Claims = volumemanager.ClaimsFunc(func(context.Context, *v1.Pod, v1.Volume) (volumemanager.Spec, error) {
			return volumemanager.Spec{}, errors.New("connection refused")
		})
		s.restart()
		require.NoError(s, s.mount(podClaiming("a", "c")))
		require.NotEmpty(s, seen)
		assert.Equal(s, "/mnt/disk", seen[0].PV.Spec.Local.Path)
	})
}

// A volume found after a restart stays uncertain whatever error its SetUp returns: its containers
// may use the volume, and it must be torn down at the end (PR 110670).
func TestUpstream110670FoundVolumeStaysUncertain(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Reconstructed {
			return volumetest.Behaviour{Err: volumemanager.Final(errors.New("no"))}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.restart()
		require.Error(s, s.mount(podWith("a", "v")))
		assert.Equal(s, volumemanager.StateUncertain, s.manager.Snapshot().Volumes[0].Pods[0].State)
		assert.FileExists(s, s.recordOf("a", "v"))
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// Issues 60987, 45464, 38498, 113987, 134075: volumes of pods that ended while the agent was down
// stay for ever; the kubelet tries the cleanup once.
func TestUpstream60987ForgottenVolumesAreTornDownWithBackoff(t *testing.T) {
	options := volumetest.Options{Behave: failing(volumetest.OpTearDown, 7, errors.New("device or resource busy"))}
	play(t, options, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.stop()
		s.pods.Set("a", volumetest.Gone)
		s.restart()
		time.Sleep(time.Minute)
		assert.Len(s, s.plugin.Mounted(), 1)
		time.Sleep(4 * time.Minute)
		assert.Empty(s, s.plugin.Mounted())
		assert.NoFileExists(s, s.recordOf("a", "v"))
	})
}

// After a crash between the record and SetUp, nothing is mounted, and TearDown must succeed.
func TestCrashBetweenRecordAndSetUp(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpSetUp, 1, errors.New("killed"))}, nil, func(s *stage) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Millisecond)
		defer cancel()
		require.Error(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")))
		assert.FileExists(s, s.recordOf("a", "v"))
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.Equal(s, []string{"SetUp a/v", "TearDown a/v"}, s.plugin.Journal())
		assert.NoFileExists(s, s.recordOf("a", "v"))
	})
}

// A device record that was incomplete when the agent was killed belongs to a volume that was not
// staged yet. Such a record was never removed, unless the volume came back to the node.
func TestCrashWhileDeviceRecordIsWritten(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		dir := filepath.Join(s.root, "volumemanager", "devices")
		require.NoError(s, os.WriteFile(filepath.Join(dir, "0123.json.tmp"), []byte(`{"version":`), 0o600))
		s.stop()
		s.renew()
		require.NoError(s, s.manager.Reconstruct(s.Context()), "the file is no record that cannot be read")
		s.start()
		require.NoError(s, s.remove("a"))
		synctest.Wait()
		assert.Empty(s, filesBelow(s.T, s.root))
	})
}

// Volumes of another agent have no record: their folder is enough.
func TestVolumesOfAnotherAgentAreFound(t *testing.T) {
	play(t, volumetest.Options{Folders: true}, nil, func(s *stage) {
		s.stop()
		dir := filepath.Join(s.root, "pods/a/volumes/example.com~fake/v")
		require.NoError(s, os.MkdirAll(dir, 0o750))
		require.NoError(s, os.MkdirAll(filepath.Join(s.root, "pods/a/volumes/example.org~other/w"), 0o750))
		require.NoError(s, os.MkdirAll(filepath.Join(s.root, "pods/a/plugins/example.com~fake/not-a-record"), 0o750))
		s.restart()
		found := s.manager.Snapshot()
		require.Len(s, found.Volumes, 1)
		assert.True(s, found.Volumes[0].Pods[0].Reconstructed)
		require.Len(s, found.Leftovers, 1)
		assert.Equal(s, `there is no plugin "example.org/other"`, found.Leftovers[0].Why)
		require.NoError(s, s.mount(podWith("a", "v")))
		assert.Equal(s, []string{"SetUp a/v (reconstructed)"}, s.plugin.Journal())
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.NoDirExists(s, dir)
	})
}

// Folders without a plugin are told for each pod, and once, however often the folder of the pod is read.
func TestFoldersWithoutAPluginOfTwoPods(t *testing.T) {
	play(t, volumetest.Options{Folders: true}, nil, func(s *stage) {
		s.stop()
		s.files("pods/a/volumes/example.org~other/w/", "pods/b/volumes/example.org~other/w/")
		s.restart()
		told := func() (uids []types.UID) {
			for _, l := range s.manager.Snapshot().Leftovers {
				assert.Equal(s, volumemanager.LeftoverFolder, l.Kind)
				assert.Equal(s, filepath.Join(s.root, "pods", string(l.PodUID), "volumes/example.org~other/w"), l.Path)
				uids = append(uids, l.PodUID)
			}
			return uids
		}
		assert.Equal(s, []types.UID{"a", "b"}, told())
		s.pods.Set("a", volumetest.Gone)
		require.NoError(s, s.manager.CleanupOrphan("a"))
		assert.ElementsMatch(s, []types.UID{"a", "b"}, told())
	})
}

// Without a record, the name of a shared volume is not known until its pod requests the volume.
func TestSharedVolumeOfAnotherAgentIsTakenOver(t *testing.T) {
	options := volumetest.Options{Folders: true, Shared: true, Staged: true}
	play(t, options, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		s.stop()
		require.NoError(s, os.MkdirAll(filepath.Join(s.root, "pods/a/volumes/example.com~fake/pv-c"), 0o750))
		s.restart()
		require.NoError(s, s.mount(podClaiming("a", "c")))
		assert.Equal(s, []string{"MountDevice pv-c", "SetUp a/pv-c (reconstructed)"}, s.plugin.Journal())
		all := s.manager.Snapshot().Volumes
		require.Len(s, all, 1)
		assert.EqualValues(s, "example.com/fake/pv-c", all[0].Name)
		require.NoError(s, s.remove("a"))
	})
}

// With an unreadable record, the folder still identifies the volume.
func TestDamagedRecordIsNoReasonToForget(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		for _, damage := range []string{"", "{", `{"version":2}`, `{"version":1,"podUID":"b","plugin":"example.com/fake","inner":"v"}`} {
			s.stop()
			require.NoError(s, os.WriteFile(s.recordOf("a", "v"), []byte(damage), 0o600))
			s.renew()
			require.Error(s, s.manager.Reconstruct(s.Context()), "%q", damage)
			assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"), "%q", damage)
			s.start()
		}
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// A mount record that was truncated when the agent was killed belongs to a volume that was not set
// up yet. The pod gets its volume, and at the end nothing is left, also for a volume without a
// folder.
func TestCrashWhileMountRecordIsWritten(t *testing.T) {
	for _, cut := range []string{"", `{"version":1,"podU`} {
		play(t, volumetest.Options{}, nil, func(s *stage) {
			s.stop()
			for _, uid := range []types.UID{"a", "b"} {
				require.NoError(s, os.MkdirAll(filepath.Dir(s.recordOf(uid, "v")), 0o750))
				require.NoError(s, os.WriteFile(s.recordOf(uid, "v"), []byte(cut), 0o600))
			}
			s.restart()
			require.NoError(s, s.mount(podWith("a", "v")))
			assert.Equal(s, []string{"SetUp a/v (reconstructed)"}, s.plugin.Journal())
			data, err := os.ReadFile(s.recordOf("a", "v"))
			require.NoError(s, err)
			assert.True(s, json.Valid(data))
			require.NoError(s, s.remove("a"))
			require.NoError(s, s.remove("b"))
			assert.Empty(s, filesBelow(s.T, s.root))
		})
	}
}

// The name of a volume may be as long as a file name; then its record needs another name.
func TestRecordOfVolumeWithLongName(t *testing.T) {
	long := strings.Repeat("v", 253)
	play(t, volumetest.Options{}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", long)))
		assert.FileExists(s, s.recordOf("a", long))
		s.restart()
		assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		require.NoError(s, s.mount(podWith("a", long)))
		assert.Equal(s, "SetUp a/"+long+" (reconstructed)", s.plugin.Journal()[1])
		s.stop()
		other := filepath.Join(filepath.Dir(s.recordOf("a", long)), strings.Repeat("0", 64)+".mount.json")
		require.NoError(s, os.Rename(s.recordOf("a", long), other))
		s.renew()
		require.ErrorContains(s, s.manager.Reconstruct(s.Context()), "is that of another volume")
		require.NoError(s, os.Rename(other, s.recordOf("a", long)))
		s.restart()
		require.NoError(s, s.remove("a"))
		assert.Empty(s, filesBelow(s.T, s.root))
	})
}

// A pod whose UID comes back during the teardown of its volumes is alive.
func TestPodThatComesBackKeepsItsVolumes(t *testing.T) {
	options := volumetest.Options{Behave: failing(volumetest.OpTearDown, 1, errors.New("busy"))}
	play(t, options, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		s.manager.PodChanged("a")
		synctest.Wait()
		s.pods.Set("a", volumetest.Alive) // without a call of PodChanged
		time.Sleep(time.Hour)
		assert.Equal(s, []string{"SetUp a/v", "TearDown a/v"}, s.plugin.Journal())
		require.NoError(s, s.mount(podWith("a", "v")))
		assert.Len(s, s.manager.GetMountedVolumesForPod("a"), 1)
	})
}

// The resync finds changes without a call of PodChanged.
func TestResyncIsTheSafetyNet(t *testing.T) {
	play(t, volumetest.Options{}, func(o *volumemanager.Options) { o.SetLimits(volumemanager.DefaultLimits()) }, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		time.Sleep(volumemanager.DefaultLimits().Resync + time.Second)
		assert.Empty(s, s.plugin.Mounted())
	})
}

// A new agent does not report the end of a pod's volumes before Reconstruct has finished.
func TestWaitsBeforeReconstruction(t *testing.T) {
	reachable := true
	options := volumetest.Options{Shared: true}
	play(t, options, withClaims(&reachable), func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		require.NoError(s, s.mount(podClaiming("b", "c")))
		s.stop()
		s.renew()
		reachable = false
		s.pods.Set("a", volumetest.Gone)
		gone := background(func() error { return s.manager.WaitForUnmount(s.Context(), "a") })
		synctest.Wait()
		assert.Len(s, s.plugin.Mounted(), 2)
		ctx, cancel := context.WithCancel(s.Context())
		ended := background(func() error { return s.manager.Run(ctx) })
		require.NoError(s, gone())
		assert.Equal(s, []string{"b/pv-c"}, s.plugin.Mounted())
		require.NoError(s, s.mount(podClaiming("b", "c")))
		cancel()
		require.NoError(s, ended())
	})
}

// slowReconstructor takes time to reconstruct a volume without a record.
type slowReconstructor struct {
	*volumetest.Plugin
	release chan struct{}
}

func (p slowReconstructor) Reconstruct(volumemanager.Place) (volumemanager.Spec, error) {
	<-p.release
	return volumemanager.Spec{}, errors.New("it does not say")
}

// A pod that is synced during Reconstruct gets its recorded volumes.
func TestMountWaitsForReconstruction(t *testing.T) {
	reachable := true
	play(t, volumetest.Options{Shared: true}, withClaims(&reachable), func(s *stage) {
		require.NoError(s, s.mount(podClaiming("b", "c")))
		s.stop()
		reachable = false
		before := volumemanager.Place{Root: s.root, PodUID: "a", Plugin: s.plugin.Name(), Inner: "v"}
		require.NoError(s, os.MkdirAll(before.Dir(), 0o750))
		slow := slowReconstructor{s.plugin, make(chan struct{})}
		s.options.Plugins = []volumemanager.Plugin{slow}
		s.renew()
		s.start()
		wait := background(func() error { return s.mount(podClaiming("b", "c")) })
		synctest.Wait()
		close(slow.release)
		require.NoError(s, wait())
	})
}
