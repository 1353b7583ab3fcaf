// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// Claims may fail, and may return more than a volume needs.
func TestAnswersOfClaims(t *testing.T) {
	refused := errors.New("connection refused")
	var answer error
	resolve := claims()
	edit := func(o *volumemanager.Options) {
		o.Claims = volumemanager.ClaimsFunc(func(ctx context.Context, pod *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
			spec, err := resolve(ctx, pod, vol)
			spec.Volume = &vol
			return spec, errors.Join(err, answer)
		})
	}
	supports := func(spec volumemanager.Spec) bool { return spec.PV != nil && spec.Volume == nil }
	final := func(volumetest.Call) volumetest.Behaviour {
		return volumetest.Behaviour{Err: volumemanager.Terminal(errors.New("no disk"))}
	}
	play(t, volumetest.Options{Shared: true, Supports: supports}, edit, func(s *stage) {
		answer = refused
		require.ErrorIs(s, s.mount(podClaiming("a", "c")), refused)
		answer = nil
		require.NoError(s, s.mount(podClaiming("a", "c")), "only the PersistentVolume is the volume")
	})
	play(t, volumetest.Options{Shared: true, Supports: supports, Behave: final}, edit, func(s *stage) {
		answer = nil
		require.ErrorContains(s, s.mount(podClaiming("a", "c")), "no disk")
		answer = refused
		require.ErrorIs(s, s.mount(podClaiming("a", "c")), refused, "the pod has no volume whose claim it could keep")
	})
}

// A volume is attached once the node's status can be read and the plugin has found the device. This may
// take longer than other operations.
func TestFailuresOfAttaching(t *testing.T) {
	lost := errors.New("device lost")
	options := volumetest.Options{Behave: func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpWaitForAttach && c.N == 0 {
			return volumetest.Behaviour{Err: lost}
		}
		return volumetest.Behaviour{}
	}}
	playAttached(t, options, func(s *stage, c *cluster) {
		unreadable := errors.New("no API server")
		c.set(nil, unreadable)
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse(s.manager.GetVolumesInUse())
		synctest.Wait()
		volumes := s.manager.Snapshot().Volumes
		require.ErrorIs(s, volumes[0].LastError, unreadable)
		assert.False(s, volumes[0].Attached)
		c.set(map[v1.UniqueVolumeName]string{attachedName: "/dev/x"}, nil)
		s.manager.NodeChanged()
		time.Sleep(time.Minute)
		require.NoError(s, wait())
		s.mu.Lock()
		defer s.mu.Unlock()
		require.NotEmpty(s, s.ends)
		require.ErrorIs(s, s.ends[1].Err, lost)
		for _, end := range s.ends {
			limit := volumemanager.DefaultLimits().Operation
			if end.Kind == volumemanager.OpVerifyAttached {
				limit = 10 * time.Minute
			}
			assert.Equal(s, limit, end.Deadline.Sub(end.Started), end.Kind.String())
		}
	})
}

// A failed teardown is told and tried again, and the record stays until then.
func TestTearDownThatFails(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, 1, errBusy)}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		s.manager.PodChanged("a")
		synctest.Wait()
		require.ErrorIs(s, s.manager.Snapshot().Volumes[0].Pods[0].LastError, errBusy)
		assert.FileExists(s, s.recordOf("a", "v"))
		require.NoError(s, s.remove("a"))
		assert.NoFileExists(s, s.recordOf("a", "v"))
	})
}

// A pod that is no longer gone keeps the volume whose teardown has failed.
func TestPodThatComesBackKeepsItsVolume(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, 1, errBusy)}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		s.manager.PodChanged("a")
		synctest.Wait()
		assert.Equal(s, volumemanager.DesireGone, s.manager.Snapshot().Volumes[0].Pods[0].Desire)
		s.pods.Set("a", volumetest.Alive)
		s.manager.PodChanged("a")
		assert.Equal(s, volumemanager.DesireKept, s.manager.Snapshot().Volumes[0].Pods[0].Desire, "at once, not with the next teardown")
		time.Sleep(time.Hour)
		assert.Equal(s, volumemanager.DesireKept, s.manager.Snapshot().Volumes[0].Pods[0].Desire)
		assert.Equal(s, []string{"SetUp a/v", "TearDown a/v"}, s.plugin.Journal())
	})
}

// A volume that is being set up as its pod begins to terminate is ready for the call that waits.
func TestMountedWhileThePodTerminates(t *testing.T) {
	behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: 10 * time.Second} }
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		began := time.Now()
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(time.Second)
		s.pods.Set("a", volumetest.Terminating)
		s.manager.PodChanged("a")
		require.NoError(s, wait())
		assert.Equal(s, 10*time.Second, time.Since(began))
	})
}

// The last good content is enough for a call that has waited for a refresh for long.
func TestRefreshThatIsLate(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Remount {
			return volumetest.Behaviour{Hang: volumetest.HangUntilCancelled}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Refresh: true, Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		require.NoError(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")))
	})
}

// Two calls for one pod wait for Reconstruct. The end of one leaves the other waiting.
func TestOneOfTwoWaitsEnds(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{}, func(o *volumemanager.Options) {
			o.Plugins[0] = slowToFind{o.Plugins[0].(*volumetest.Plugin)}
		})
		require.NoError(t, os.MkdirAll(filepath.Join(root, "pods/a/volumes/example.com~fake/v"), 0o750))
		s.start()
		defer func() { s.stop() }()
		began := time.Now()
		long := background(func() error { return s.mount(podWith("b", "v")) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, s.manager.WaitForAttachAndMount(ctx, podWith("b", "v")))
		require.NoError(t, long())
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

// Each volumeMount has the path of its own volume.
func TestMountOfTwoVolumes(t *testing.T) {
	play(t, volumetest.Options{Folders: true}, nil, func(s *stage) {
		pod := podWith("a", "one", "two", "three")
		require.NoError(s, s.mount(pod))
		c := &pod.Spec.Containers[0]
		for i, m := range c.VolumeMounts {
			path, _, _, err := s.manager.MountOf(s.Context(), pod, c, i)
			require.NoError(s, err)
			assert.Equal(s, m.Name, filepath.Base(path))
		}
	})
}

// Folders inside a volume of an unknown plugin are data, also if they are empty.
func TestEmptyFoldersInVolumesStay(t *testing.T) {
	play(t, volumetest.Options{}, noMounts, func(s *stage) {
		s.pods.Set("a", volumetest.Gone)
		s.files("pods/a/volumes/x.com~y/v/data/")
		require.ErrorContains(s, s.manager.CleanupOrphans(s.Context(), nobody), "volumes are left at a/volumes/x.com~y/v")
		assert.DirExists(s, s.root+"/pods/a/volumes/x.com~y/v/data")
	})
}

// A volume that was never set up is not torn down because its folder is found.
func TestFolderOfAVolumeThatNeverMounted(t *testing.T) {
	behave := func(volumetest.Call) volumetest.Behaviour {
		return volumetest.Behaviour{Err: volumemanager.Terminal(errors.New("no disk"))}
	}
	play(t, volumetest.Options{Behave: behave}, noMounts, func(s *stage) {
		require.Error(s, s.mount(podWith("a", "v")))
		s.files("pods/a/volumes/example.com~fake/v/")
		s.pods.Set("a", volumetest.Gone)
		require.NoError(s, s.manager.CleanupOrphans(s.Context(), nobody))
		synctest.Wait()
		assert.Equal(s, []string{"SetUp a/v"}, s.plugin.Journal())
	})
}

// A device record that cannot be written is told, and nothing is staged before it is written.
func TestDeviceRecordThatCannotBeWritten(t *testing.T) {
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage) {
		s.files("volumemanager")
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		time.Sleep(time.Second)
		volumes := s.manager.Snapshot().Volumes
		require.Len(s, volumes, 1)
		require.ErrorContains(s, volumes[0].LastError, "write the device record: ")
		assert.Empty(s, s.plugin.Calls())
		require.NoError(s, os.Remove(filepath.Join(s.root, "volumemanager")))
		require.NoError(s, wait())
	})
}

// Every mount below plugins/ that no staged volume explains is a leftover.
func TestLeftoversBesideStagedVolumes(t *testing.T) {
	var points []string
	edit := func(o *volumemanager.Options) {
		o.Claims = claims()
		o.Mounts = volumemanager.MountTableFunc(func() ([]string, error) { return points, nil })
	}
	play(t, volumetest.Options{Shared: true, Staged: true}, edit, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c", "d")))
		plugins := filepath.Join(s.root, "plugins")
		points = []string{"/"}
		for _, v := range s.manager.Snapshot().Volumes {
			require.NoError(s, os.MkdirAll(v.DeviceDir, 0o750))
			points = append(points, v.DeviceDir)
		}
		points = append(points, plugins+"/one", plugins+"/two")
		left, err := s.manager.Leftovers(s.Context(), func(types.UID) bool { return true })
		require.NoError(s, err)
		var paths []string
		for _, l := range left {
			paths = append(paths, l.Path)
		}
		assert.Equal(s, points[3:], paths)
	})
}

// The limits of every program.
func TestDefaultLimits(t *testing.T) {
	assert.Equal(t, volumemanager.Limits{Resync: time.Minute, Wait: 2*time.Minute + 3*time.Second, Operation: 2 * time.Minute, Parallel: 32},
		volumemanager.DefaultLimits())
}

// A SetUp that hangs ends with its pod, and the error has the reason.
func TestSetUpForAPodThatIsGone(t *testing.T) {
	hang := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpSetUp {
			return volumetest.Behaviour{Hang: volumetest.HangUntilCancelled}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: hang}, nil, func(s *stage) {
		began := time.Now()
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		synctest.Wait()
		require.NoError(s, s.remove("a"))
		require.ErrorIs(s, wait(), volumemanager.ErrPodTerminating)
		assert.Zero(s, time.Since(began))
		s.mu.Lock()
		defer s.mu.Unlock()
		require.ErrorContains(s, s.ends[0].Err, "the pod is gone")
	})
}

// A reason that several volumes of a pod have is told once.
func TestReasonOfSeveralVolumesIsToldOnce(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, 100, errBusy)}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "one", "two")))
		s.pods.Set("a", volumetest.Gone)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		err := s.manager.WaitForUnmount(ctx, "a")
		require.ErrorIs(s, err, errBusy)
		assert.Equal(s, 1, strings.Count(err.Error(), errBusy.Error()), err.Error())
	})
}

// A record with the same content is not written again.
func TestRecordIsNotWrittenAgain(t *testing.T) {
	play(t, volumetest.Options{Refresh: true}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		before, err := os.Stat(s.recordOf("a", "v"))
		require.NoError(s, err)
		require.NoError(s, s.mount(podWith("a", "v")))
		after, err := os.Stat(s.recordOf("a", "v"))
		require.NoError(s, err)
		assert.Len(s, s.plugin.Journal(), 2)
		assert.True(s, os.SameFile(before, after))
	})
}

// A root that cannot be read has no volumes that are known, and this is told.
func TestRootThatCannotBeRead(t *testing.T) {
	root := filepath.Join(memoryDir(t), "file")
	require.NoError(t, os.WriteFile(root, nil, 0o600))
	m, err := volumemanager.New(volumemanager.Options{Root: root})
	require.NoError(t, err)
	require.ErrorContains(t, m.Reconstruct(t.Context()), "not a directory")
	require.ErrorContains(t, m.CleanupOrphans(t.Context(), nobody), "not a directory")
	_, err = m.Leftovers(t.Context(), nobody)
	require.ErrorContains(t, err, "not a directory")
}

// All pods that wait for a volume are told at once that the volume cannot be staged.
func TestStagingThatFailsIsToldToAllPods(t *testing.T) {
	behave := func(volumetest.Call) volumetest.Behaviour {
		return volumetest.Behaviour{Delay: time.Second, Err: volumemanager.Terminal(errors.New("no disk"))}
	}
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true, Staged: true, Behave: behave}, edit, func(s *stage) {
		began := time.Now()
		for _, wait := range []func() error{
			background(func() error { return s.mount(podClaiming("a", "c")) }), background(func() error { return s.mount(podClaiming("b", "c")) }),
		} {
			require.ErrorContains(s, wait(), "no disk")
			assert.Equal(s, time.Second, time.Since(began))
		}
		assert.NoFileExists(s, volumemanager.DeviceRecordPath(s.root, "example.com/fake/pv-c"))
	})
}

// A volume that was not of a claim does not serve as the claim that cannot be resolved.
func TestUnresolvedClaimWithTheNameOfAnotherVolume(t *testing.T) {
	refused := errors.New("connection refused")
	edit := func(o *volumemanager.Options) {
		o.Claims = volumemanager.ClaimsFunc(func(context.Context, *v1.Pod, v1.Volume) (volumemanager.Spec, error) {
			return volumemanager.Spec{}, refused
		})
	}
	play(t, volumetest.Options{}, edit, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "of-c")))
		require.ErrorIs(s, s.mount(podClaiming("a", "c")), refused)
	})
}

// A teardown under way is not cancelled because the pod is gone.
func TestTearDownIsNotCancelled(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpTearDown {
			return volumetest.Behaviour{Delay: 10 * time.Second}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		wait := background(func() error { return s.remove("a") })
		time.Sleep(time.Second)
		s.manager.PodChanged("a")
		require.NoError(s, wait())
		assert.Equal(s, []string{"SetUp a/v", "TearDown a/v"}, s.plugin.Journal())
	})
}

// The pod of a volume that is mounted alone, because no other pod may have the volume or because the volume grows, ends
// during the mount: the mount is cancelled, the end of the pod waits for it, and nothing stays mounted. The mount may also
// ignore the end.
func TestEndOfAPodDuringAMountAlone(t *testing.T) {
	for name, edit := range map[string]func(*v1.PersistentVolume){
		"exclusive": func(pv *v1.PersistentVolume) { pv.Spec.AccessModes[0] = v1.ReadWriteOncePod },
		"growing":   func(pv *v1.PersistentVolume) { pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("2Gi") },
	} {
		for _, hang := range []volumetest.Hang{volumetest.HangUntilCancelled, volumetest.HangForever} {
			t.Run(name, func(t *testing.T) {
				behave := func(c volumetest.Call) volumetest.Behaviour {
					if c.Op == volumetest.OpSetUp && c.PodUID == "a" {
						return volumetest.Behaviour{Hang: hang, Done: true}
					}
					return volumetest.Behaviour{}
				}
				options := volumetest.Options{Shared: true, Staged: true, Behave: behave}
				play(t, options, func(o *volumemanager.Options) { o.Claims = claims(edit) }, func(s *stage) {
					first := background(func() error { return s.mount(podClaiming("a", "c")) })
					time.Sleep(time.Second)
					second := background(func() error { return s.mount(podClaiming("b", "c")) })
					time.Sleep(time.Second)
					if hang == volumetest.HangForever {
						time.AfterFunc(time.Second, s.plugin.Release)
					}
					assert.Len(s, s.manager.Snapshot().Operations, 1)
					require.NoError(s, s.remove("a"))
					require.ErrorIs(s, first(), volumemanager.ErrPodTerminating)
					require.NoError(s, second())
					assert.Equal(s, []string{"b/pv-c"}, s.plugin.Mounted())
				})
			})
		}
	}
}

// Run waits for no back-off when it ends.
func TestEndDuringSeveralBackoffs(t *testing.T) {
	behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Err: errBusy} }
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		wait := background(func() error { return s.manager.WaitForAttachAndMount(ctx, podWith("a", "u", "v", "w")) })
		time.Sleep(time.Minute)
		began := time.Now()
		s.stop()
		assert.Zero(s, time.Since(began))
		cancel()
		require.Error(s, wait())
	})
}

// The names of a volume that a pod has twice are sorted.
func TestVolumeWithTwoNames(t *testing.T) {
	play(t, volumetest.Options{Shared: true}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		pod := podWith("a")
		for _, name := range []string{"z", "b", "m"} {
			pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume(name, "c"))
			use(pod, name)
		}
		require.NoError(s, s.mount(pod))
		assert.Equal(s, []string{"b", "m", "z"}, s.manager.Snapshot().Volumes[0].Pods[0].Outer)
	})
}

// A search for leftovers that is cancelled returns the leftovers found until then.
func TestLeftoversUntilTheContextEnds(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		for _, uid := range []types.UID{"a", "b"} {
			s.pods.Set(uid, volumetest.Gone)
			s.files("pods/" + string(uid) + "/etc-hosts")
		}
		ctx, cancel := context.WithCancelCause(s.Context())
		why := errors.New("the node shuts down")
		left, err := s.manager.Leftovers(ctx, func(types.UID) bool {
			cancel(why)
			return false
		})
		require.ErrorIs(s, err, why)
		require.Len(s, left, 1)
		assert.EqualValues(s, "a", left[0].PodUID)
	})
}
