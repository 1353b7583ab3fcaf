// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
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

// Two volumes of a pod with the same claim are a single mount, read-only only if both are
// read-only.
func TestModeOfTwoVolumesWithOneClaim(t *testing.T) {
	for _, tc := range []struct{ first, second, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		resolve := func(ctx context.Context, pod *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
			spec, err := claims()(ctx, pod, vol)
			spec.ReadOnly = vol.PersistentVolumeClaim.ReadOnly
			return spec, err
		}
		edit := func(o *volumemanager.Options) { o.Claims = volumemanager.ClaimsFunc(resolve) }
		play(t, volumetest.Options{Shared: true}, edit, func(s *stage) {
			pod := podClaiming("a", "c")
			pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume("second", "c"))
			use(pod, "second")
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = tc.first
			pod.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly = tc.second
			require.NoError(s, s.mount(pod))
			data, err := os.ReadFile(s.recordOf("a", "pv-c"))
			require.NoError(s, err)
			var record volumemanager.MountRecord
			require.NoError(s, json.Unmarshal(data, &record))
			assert.Equal(s, tc.want, record.Spec.ReadOnly, "%+v", tc)
			assert.Equal(s, []string{"of-c", "second"}, record.Outer)
		})
	}
}

// After a restart without a cluster, both of two volumes with the same claim are known.
func TestBothVolumesWithOneClaimAreRecorded(t *testing.T) {
	reachable := true
	play(t, volumetest.Options{Shared: true}, withClaims(&reachable), func(s *stage) {
		pod := podClaiming("a", "c")
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume("second", "c"))
		use(pod, "second")
		require.NoError(s, s.mount(pod))
		reachable = false
		s.restart()
		require.NoError(s, s.mount(pod))
		assert.Len(s, s.manager.GetMountedVolumesForPod("a"), 2)
	})
}

// Invalid volumes are refused without a call of a plugin, and hold up no other volume.
func TestRefusedVolumes(t *testing.T) {
	block := v1.PersistentVolumeBlock
	blockClaims := claims(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })
	ephemeral := podWith("a")
	ephemeral.Spec.Volumes = append(ephemeral.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
	use(ephemeral, "v")
	sameFolder := podClaiming("a", "c")
	sameFolder.Spec.Volumes = append(sameFolder.Spec.Volumes, podWith("a", "pv-c").Spec.Volumes...)
	use(sameFolder, "pv-c")
	unbound := volumemanager.ClaimsFunc(func(context.Context, *v1.Pod, v1.Volume) (volumemanager.Spec, error) {
		return volumemanager.Spec{}, nil
	})
	for _, tc := range []struct {
		name   string
		claims volumemanager.Claims
		pod    *v1.Pod
		want   string
	}{
		{"a block device as a folder", blockClaims, podClaiming("a", "c"), "of-c"},
		{"a UID that leads out", nil, podWith("../b", "v"), "pod UID"},
		{"a name that leads out", nil, podWith("a", "../v"), "volume name"},
		{"two volumes in one folder", claims(), sameFolder, "volumes of-c and pv-c are different, but would have the same folder"},
		{"a claim without a volume", unbound, podClaiming("a", "c"), "volume of-c: its claim has no persistent volume"},
		{"a generic ephemeral volume without claims", nil, ephemeral, "this node has no persistent volumes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, volumetest.Options{}, func(o *volumemanager.Options) { o.Claims = tc.claims }, func(s *stage) {
				err := s.mount(tc.pod)
				require.ErrorContains(s, err, tc.want)
				var refused *volumemanager.MountError
				require.ErrorAs(s, err, &refused)
				assert.Len(s, refused.Unprocessed, 1)
				synctest.Wait()
				if others := len(tc.pod.Spec.Volumes) - 1; others > 0 {
					assert.Len(s, s.plugin.Journal(), others, "the other volume is set up")
				} else {
					assert.Empty(s, s.plugin.Journal())
				}
			})
		})
	}
}

// oldAnswer is a Pods whose next answer is "gone", returned after another event has happened.
type oldAnswer struct {
	*volumetest.Pods
	before func()
}

func (p *oldAnswer) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	if f := p.before; f != nil {
		p.before = nil
		f()
		return true
	}
	return p.Pods.ShouldPodRuntimeBeRemoved(uid)
}

// The answer "gone" is discarded if the pod was requested meanwhile.
func TestOldAnswerAboutAPod(t *testing.T) {
	pods := &oldAnswer{}
	play(t, volumetest.Options{}, func(o *volumemanager.Options) {
		pods.Pods = o.Pods.(*volumetest.Pods)
		o.Pods = pods
	}, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		pods.before = func() { assert.NoError(s, s.mount(podWith("a", "v"))) }
		s.manager.PodChanged("a")
		assert.Equal(s, volumemanager.DesireMounted, s.manager.Snapshot().Volumes[0].Pods[0].Desire)
		synctest.Wait()
		assert.Equal(s, []string{"SetUp a/v"}, s.plugin.Journal())
	})
}

// Staging is cancelled when the last pod that needs the volume is gone, and not before.
func TestStagingForAPodThatIsGone(t *testing.T) {
	hang := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpMountDevice && c.N == 0 {
			return volumetest.Behaviour{Hang: volumetest.HangUntilCancelled}
		}
		return volumetest.Behaviour{}
	}
	edit := func(o *volumemanager.Options) {
		o.Claims = claims()
		o.SetLimits(volumemanager.Limits{Operation: time.Hour})
	}
	play(t, volumetest.Options{Shared: true, Staged: true, Behave: hang}, edit, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		for _, uid := range []types.UID{"a", "b"} {
			background(func() error { return s.manager.WaitForAttachAndMount(ctx, podClaiming(uid, "c")) })
		}
		synctest.Wait()
		for _, uid := range []types.UID{"a", "b"} {
			require.Len(s, s.manager.Snapshot().Operations, 1, "it goes on while %s is there", uid)
			assert.NoError(s, s.manager.Snapshot().Volumes[0].LastError)
			s.pods.Set(uid, volumetest.Gone)
			s.manager.PodChanged(uid)
			synctest.Wait()
		}
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "b"))
		synctest.Wait()
		assert.Empty(s, s.manager.Snapshot().Volumes)
		cancel()
		synctest.Wait()
	})
}

// A pod with a short back-off does not wait for the back-off of another pod with the same volume.
func TestRetriesOfOneVolumeAreTimedEach(t *testing.T) {
	fail := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpSetUp && (c.PodUID == "a" || c.N < 1) {
			return volumetest.Behaviour{Err: volumemanager.Final(errors.New("no"))}
		}
		return volumetest.Behaviour{}
	}
	edit := func(o *volumemanager.Options) { o.Claims = claims() }
	play(t, volumetest.Options{Shared: true, Behave: fail}, edit, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		wait := background(func() error { return s.manager.WaitForAttachAndMount(ctx, podClaiming("a", "c")) })
		time.Sleep(35 * time.Second) // the next try of a is due in about half a minute
		began := time.Now()
		require.NoError(s, s.mount(podClaiming("b", "c")))
		assert.Less(s, time.Since(began), 2*time.Second)
		cancel()
		require.Error(s, wait())
	})
}

// Reconcile returns the errors of its operations.
func TestReconcileJoinsErrors(t *testing.T) {
	busy := errors.New("device or resource busy")
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, 1, busy)}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.stop()
		s.renew()
		s.pods.Set("a", volumetest.Gone)
		require.ErrorIs(s, s.manager.Reconcile(s.Context()), busy)
		time.Sleep(time.Minute)
		require.NoError(s, s.manager.Reconcile(s.Context()))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// subpathsFunc is a func that implements Subpaths.
type subpathsFunc func(context.Context, volumemanager.Place) error

func (f subpathsFunc) CleanSubpaths(ctx context.Context, p volumemanager.Place) error {
	return f(ctx, p)
}

// A volume is not torn down while subPaths of the volume are mounted.
func TestTearDownWaitsForSubpaths(t *testing.T) {
	busy := true
	clean := func(context.Context, volumemanager.Place) error {
		if busy {
			return errors.New("target is busy")
		}
		return nil
	}
	play(t, volumetest.Options{}, func(o *volumemanager.Options) { o.Subpaths = subpathsFunc(clean) }, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		s.pods.Set("a", volumetest.Gone)
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(s, s.manager.WaitForUnmount(ctx, "a"), "clean up subpaths: target is busy")
		assert.Len(s, s.plugin.Mounted(), 1)
		busy = false
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "a"))
		assert.Empty(s, s.plugin.Mounted())
	})
}

// A pipe is not the mount point of a subPath and stays.
func TestPipeInSubpathsIsKept(t *testing.T) {
	play(t, volumetest.Options{}, noMounts, func(s *stage) {
		s.pods.Set("a", volumetest.Gone)
		s.files("pods/a/volume-subpaths/v/main/")
		pipe := filepath.Join(s.root, "pods/a/volume-subpaths/v/main/0")
		require.NoError(s, syscall.Mkfifo(pipe, 0o600))
		require.ErrorContains(s, s.manager.CleanupOrphans(s.Context(), nobody), "volumes are left at")
		_, err := os.Lstat(pipe)
		require.NoError(s, err)
	})
}
