// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

func TestMountAndUnmount(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		pod := podWith("a", "one", "two")
		require.NoError(s, s.mount(pod))
		assert.Equal(s, []string{"a/one", "a/two"}, s.plugin.Mounted())
		assert.FileExists(s, s.recordOf("a", "one"))
		mounted := s.manager.GetMountedVolumesForPod("a")
		require.Len(s, mounted, 2)
		assert.Equal(s, s.root+"/pods/a/volumes/example.com~fake/one", mounted["one"].Path)
		assert.Equal(s, "one", mounted["one"].Inner)
		assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		require.NoError(s, s.mount(pod), "again")
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
		assert.NoFileExists(s, s.recordOf("a", "one"))
		assert.NoDirExists(s, s.root+"/pods/a/plugins/example.com~fake/one")
		assert.False(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		assert.Empty(s, s.manager.GetMountedVolumesForPod("a"))
		assert.Empty(s, s.manager.Snapshot().Volumes, "nothing is remembered of what is over")
	})
}

// A call waits for all volumes of the pod. A version of the pod without volumes does not, and its earlier volumes are
// no longer requested.
func TestWaitForTheLastOfTwoVolumes(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Volume == "slow" {
			return volumetest.Behaviour{Delay: time.Second}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		began := time.Now()
		require.NoError(s, s.mount(podWith("a", "fast", "slow")))
		assert.Equal(s, time.Second, time.Since(began))
		require.NoError(s, s.mount(podWith("a")))
		for _, v := range s.manager.Snapshot().Volumes {
			assert.Equal(s, volumemanager.DesireKept, v.Pods[0].Desire)
		}
	})
}

// A volume that will never be mounted ends the call at once, also behind a volume that is still being mounted.
func TestTerminalErrorBesideASlowVolume(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Volume == "a-slow" {
			return volumetest.Behaviour{Delay: time.Minute}
		}
		return volumetest.Behaviour{Err: volumemanager.Terminal(errors.New("no such disk"))}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		began := time.Now()
		require.ErrorContains(s, s.mount(podWith("a", "a-slow", "b-wrong")), "no such disk")
		assert.Zero(s, time.Since(began))
	})
}

// A record that no volume explains may be that of a mount: a setup that fails without an effect leaves the record.
func TestUnexpectedRecordOutlivesAFailedSetUp(t *testing.T) {
	behave := failing(volumetest.OpSetUp, 1, volumemanager.Transient(errBusy))
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.NoError(s, os.MkdirAll(filepath.Dir(s.recordOf("a", "v")), 0o750))
		require.NoError(s, os.WriteFile(s.recordOf("a", "v"), []byte("data"), 0o600))
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		synctest.Wait()
		assert.FileExists(s, s.recordOf("a", "v"))
		require.NoError(s, wait())
	})
}

// A volume that is mounted, and cannot be expanded for good, is torn down with its pod.
func TestVolumeThatCannotBeExpandedIsTornDown(t *testing.T) {
	edit := func(o *volumemanager.Options) {
		o.Claims = claims(func(pv *v1.PersistentVolume) { pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("2Gi") })
	}
	behave := failing(volumetest.OpExpand, always, volumemanager.Final(errors.New("too small a disk")))
	play(t, volumetest.Options{Shared: true, Behave: behave}, edit, func(s *stage) {
		ctx, cancel := context.WithTimeout(s.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorContains(s, s.manager.WaitForAttachAndMount(ctx, podClaiming("a", "c")), "too small a disk")
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted())
		assert.NoFileExists(s, s.recordOf("a", "pv-c"))
	})
}

func TestPodWithoutVolumesIsReadyAtOnce(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		pod := podWith("a", "used")
		pod.Spec.Containers[0].VolumeMounts = nil
		require.NoError(s, s.mount(pod), "a volume that no container uses is not set up")
		assert.Empty(s, s.plugin.Calls())
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "nobody"))
		require.Error(s, s.mount(nil))
		s.pods.Set("b", volumetest.Terminating)
		require.NoError(s, s.mount(podWith("b")), "nothing is missing for a pod that ends")
	})
}

func TestWaitsTellWhatIsMissing(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Volume == "bad" {
			return volumetest.Behaviour{Err: errors.New("no disk")}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		began := time.Now()
		err := s.mount(podWith("a", "good", "bad"))
		assert.Equal(s, 2*time.Minute+3*time.Second, time.Since(began))
		var me *volumemanager.MountError
		require.ErrorAs(s, err, &me)
		assert.Equal(s, []string{"bad"}, me.Unmounted)
		assert.Empty(s, me.Unprocessed)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		assert.ErrorContains(s, err, "no disk")
		assert.ErrorContains(s, err, "unmounted volumes=[bad], unattached volumes=[], failed to process volumes=[]: ")

		cause := errors.New("the pod was killed")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(cause)
		require.ErrorIs(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "good", "bad")), cause)
		require.NoError(s, s.mount(podWith("a", "good")), "what the pod does not name any more is not waited for")
		assert.Equal(s, []string{"a/good"}, s.plugin.Mounted())
	})
}

func TestUnmountErrorNamesWhatIsLeft(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpTearDown && c.Volume == "busy" && c.N < 3 {
			return volumetest.Behaviour{Err: errors.New("device or resource busy")}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "busy", "free")))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		s.pods.Set("a", volumetest.Gone)
		err := s.manager.WaitForUnmount(ctx, "a")
		var ue *volumemanager.UnmountError
		require.ErrorAs(s, err, &ue)
		assert.Equal(s, []string{"example.com/fake/a-busy"}, ue.Mounted)
		require.ErrorContains(s, err, "device or resource busy")
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NoError(s, s.manager.WaitForAllPodsUnmount(s.Context(), "a", "b"))
	})
}

// The volumes that stay are told in the order of their names, not of their mounts.
func TestUnmountErrorIsSorted(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, 2, errBusy)}, nil, func(s *stage) {
		for _, names := range [][]string{{"z"}, {"z", "a"}} {
			require.NoError(s, s.mount(podWith("p", names...)))
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Millisecond)
		defer cancel()
		s.pods.Set("p", volumetest.Gone)
		var ue *volumemanager.UnmountError
		require.ErrorAs(s, s.manager.WaitForUnmount(ctx, "p"), &ue)
		assert.Equal(s, []string{"example.com/fake/p-a", "example.com/fake/p-z"}, ue.Mounted)
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "p"))
	})
}

func TestTerminalErrorEndsTheWaitAtOnce(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		return volumetest.Behaviour{Err: volumemanager.Terminal(errors.New("not on this node"))}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		began := time.Now()
		for i := range 3 {
			require.ErrorContains(s, s.mount(podWith("a", "v")), "not on this node")
			assert.Len(s, s.plugin.Calls(), i+1, "each sync of the pod tries again")
		}
		time.Sleep(time.Hour)
		assert.Len(s, s.plugin.Calls(), 3, "nothing else does")
		assert.Equal(s, time.Hour, time.Since(began))
		assert.False(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		assert.NoFileExists(s, s.recordOf("a", "v"))
	})
}

func TestRefusedVolumesDoNotHoldUpOthers(t *testing.T) {
	onlyEmptyDirs := func(spec volumemanager.Spec) bool { return spec.Volume != nil && spec.Volume.EmptyDir != nil }
	play(t, volumetest.Options{Supports: onlyEmptyDirs}, nil, func(s *stage) {
		pod := podWith("a", "good")
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "odd"}, claimVolume("claimed", "c"))
		use(pod, "odd")
		use(pod, "claimed")
		use(pod, "undefined")
		err := s.mount(pod)
		var me *volumemanager.MountError
		require.ErrorAs(s, err, &me)
		assert.Equal(s, []string{"claimed", "odd", "undefined"}, me.Unprocessed)
		require.ErrorIs(s, err, volumemanager.ErrNoPlugin)
		synctest.Wait()
		assert.Equal(s, []string{"a/good"}, s.plugin.Mounted())
	})
}

func TestTerminatingPodGetsNothing(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		s.pods.Set("a", volumetest.Terminating)
		require.ErrorIs(s, s.mount(podWith("a", "v")), volumemanager.ErrPodTerminating)
		assert.Empty(s, s.plugin.Calls())
	})
}

func TestTerminatingPodIsNotTriedAgain(t *testing.T) {
	behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Err: errors.New("no")} }
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(time.Second)
		s.pods.Set("a", volumetest.Terminating)
		s.manager.PodChanged("a")
		require.ErrorIs(s, wait(), volumemanager.ErrPodTerminating)
		calls := len(s.plugin.Calls())
		time.Sleep(time.Hour)
		assert.Len(s, s.plugin.Calls(), calls)
	})
}

func TestUnsafePathsAreRefused(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		for _, uid := range []types.UID{"..", "a/b", "", "."} {
			require.Error(s, s.mount(podWith(uid, "v")), "%q", uid)
		}
		for _, name := range []string{"..", "../../etc", ".", "a/b"} {
			require.ErrorContains(s, s.mount(podWith("a", name)), "no path element")
		}
		assert.Empty(s, s.plugin.Calls())
	})
}

func TestRunTwice(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		require.ErrorIs(s, s.manager.Run(s.Context()), volumemanager.ErrAlreadyRun)
		s.stop()
		require.ErrorIs(s, s.manager.Run(s.Context()), volumemanager.ErrAlreadyRun)
		require.ErrorIs(s, s.mount(podWith("a", "v")), volumemanager.ErrStopped)
		require.ErrorIs(s, s.manager.Reconcile(s.Context()), volumemanager.ErrStopped)
	})
}

// Reconcile performs all due operations of a volume at once.
func TestReconcileWaitsForTwoPodsAtOnce(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: time.Second} }
		s := newStage(t, root, volumetest.Options{Shared: true, Behave: behave}, func(o *volumemanager.Options) { o.Claims = claims() })
		first := background(func() error { return s.mount(podClaiming("a", "c")) })
		second := background(func() error { return s.mount(podClaiming("b", "c")) })
		synctest.Wait()
		began := time.Now()
		require.NoError(t, s.manager.Reconcile(t.Context()))
		assert.Equal(t, time.Second, time.Since(began))
		require.NoError(t, errors.Join(first(), second()))
	})
}

func TestReconcileDrivesTheManagerWithoutRun(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{Shared: true, Staged: true}, func(o *volumemanager.Options) { o.Claims = claims() })
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		assert.Empty(t, s.plugin.Calls())
		plan := s.manager.Plan()
		require.Len(t, plan, 1)
		assert.Equal(t, volumemanager.OpMountDevice, plan[0].Kind)
		require.NoError(t, s.manager.Reconcile(t.Context()))
		require.NoError(t, wait())
		s.pods.Set("a", volumetest.Gone)
		require.NoError(t, s.manager.Reconcile(t.Context()))
		assert.Empty(t, s.plugin.Mounted())
		assert.Empty(t, s.plugin.Staged())
		assert.Equal(t, []string{"MountDevice pv-c", "SetUp a/pv-c", "TearDown a/pv-c", "UnmountDevice pv-c"}, s.plugin.Journal())
		assert.Empty(t, s.plugin.Violations())
	})
}
