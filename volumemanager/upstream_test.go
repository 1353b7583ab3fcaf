// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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

// failing returns a Behave that fails calls of op, all of them or the first n.
func failing(op volumetest.Op, n int, err error) func(volumetest.Call) volumetest.Behaviour {
	return func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == op && c.N < n {
			return volumetest.Behaviour{Err: err}
		}
		return volumetest.Behaviour{}
	}
}

const always = 1 << 30

// Issues 126049, 66938: the kubelet polls for work every 100 ms, and for the end of work every 300
// ms.
func TestUpstream126049NothingWaitsForAPoll(t *testing.T) {
	play(t, volumetest.Options{}, nil, func(s *stage) {
		began := time.Now()
		for i := range 100 {
			require.NoError(s, s.mount(podWith(types.UID(fmt.Sprint(i)), "one", "two")))
		}
		for i := range 100 {
			require.NoError(s, s.remove(types.UID(fmt.Sprint(i))))
		}
		assert.Zero(s, time.Since(began), "in virtual time, only a timer takes time")
	})
}

// counted are pods that count the questions about them.
type counted struct {
	volumemanager.Pods
	asked atomic.Int64
}

func (c *counted) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	c.asked.Add(1)
	return c.Pods.ShouldPodRuntimeBeRemoved(uid)
}

// Issue 126049: an idle manager does nothing. The resync is the only timer, and asks for each pod
// once a minute.
func TestUpstream126049IdleMeansIdle(t *testing.T) {
	const pods = 50
	alive := &counted{Pods: &volumetest.Pods{}}
	play(t, volumetest.Options{Refresh: true, Gone: alive.Pods.ShouldPodRuntimeBeRemoved}, func(o *volumemanager.Options) {
		o.Pods = alive
		o.SetLimits(volumemanager.DefaultLimits())
	}, func(s *stage) {
		for i := range pods {
			require.NoError(s, s.mount(podWith(types.UID(fmt.Sprint(i)), "a", "b", "c", "d", "e")))
		}
		synctest.Wait() // the hook runs after the waiting calls were woken
		calls, ends, asked := len(s.plugin.Calls()), len(s.ended()), alive.asked.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(s, s.plugin.Calls(), calls)
		assert.Len(s, s.ended(), ends)
		assert.EqualValues(s, 60*pods, alive.asked.Load()-asked)
	})
}

// Measured: the kubelet's wait for a mounted pod returns in 5 µs, before the refresh that the call
// requested.
func TestUpstreamWaitReturnsAfterTheRefresh(t *testing.T) {
	slow := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: time.Second} }
	play(t, volumetest.Options{Refresh: true, Behave: slow}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "config")))
		for version := 1; version < 5; version++ {
			s.plugin.SetContent(version)
			require.NoError(s, s.mount(podWith("a", "config")))
			content, _ := s.plugin.Content("a", "config")
			require.Equal(s, version, content)
		}
	})
}

// Issues 113242, 121271: a failed refresh empties the volume of a live pod. The conformance suite
// checks the plugin's part. The manager must keep the volume mounted, tear nothing down and let the
// pod continue.
func TestUpstream113242RefreshThatFailsKeepsTheVolume(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Remount && c.N < 4 {
			return volumetest.Behaviour{Err: volumemanager.Final(errors.New("no space left on device"))}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Refresh: true, Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "config")))
		s.plugin.SetContent(1)
		require.NoError(s, s.mount(podWith("a", "config")), "the pod goes on with the last good content")
		assert.Contains(s, s.manager.GetMountedVolumesForPod("a"), "config")
		failed := s.manager.Snapshot().Volumes[0].Pods[0]
		assert.Equal(s, volumemanager.StateMounted, failed.State)
		require.ErrorContains(s, failed.LastError, "no space left")
		time.Sleep(time.Minute)
		content, _ := s.plugin.Content("a", "config")
		assert.Equal(s, 1, content, "it is tried again without a sync of the pod")
		assert.NotContains(s, strings.Join(s.plugin.Journal(), "\n"), "TearDown")
	})
}

// Issues 30189, 115946: the kubelet notices a change of a ConfigMap in the next sync of the pod,
// after 60 to 90 s.
func TestUpstream30189RefreshIsPushed(t *testing.T) {
	play(t, volumetest.Options{Refresh: true}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "one", "two")))
		require.NoError(s, s.mount(podWith("b", "one")))
		calls := len(s.plugin.Calls())
		s.plugin.SetContent(7)
		began := time.Now()
		s.manager.Refresh(func(pod *v1.Pod, vol v1.Volume) bool { return pod.UID == "a" && vol.Name == "one" })
		synctest.Wait()
		assert.Zero(s, time.Since(began))
		assert.Equal(s, []string{"SetUp a/one (remount)"}, s.plugin.Journal()[calls:])
		content, _ := s.plugin.Content("a", "one")
		assert.Equal(s, 7, content)
	})
}

// Refresh renews every matching volume of live pods that can change, and ends their back-off.
func TestRefreshOfSeveralVolumes(t *testing.T) {
	fail := false
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if fail && c.Remount {
			return volumetest.Behaviour{Err: errors.New("no")}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Refresh: true, Behave: behave}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "one", "two")))
		require.NoError(s, s.mount(podWith("b", "one")))
		require.NoError(s, s.mount(podWith("c", "one")))
		s.pods.Set("c", volumetest.Terminating)
		s.manager.PodChanged("c")
		require.NoError(s, s.mount(podWith("b", "two")))
		since := func(calls int) []string {
			synctest.Wait()
			return slices.Sorted(slices.Values(s.plugin.Journal()[calls:]))
		}
		want := []string{"SetUp a/one (remount)", "SetUp a/two (remount)", "SetUp b/two (remount)"}
		for _, fails := range []bool{false, true, false} {
			fail = fails
			calls := len(s.plugin.Calls())
			began := time.Now()
			var asked []string
			s.manager.Refresh(func(pod *v1.Pod, vol v1.Volume) bool {
				asked = append(asked, string(pod.UID)+"/"+vol.Name)
				return true
			})
			assert.Equal(s, want, since(calls))
			assert.Zero(s, time.Since(began), "no back-off holds a Refresh")
			assert.NotContains(s, asked, "b/one", "the pod does not name the volume any more")
		}
		// The last pod goes while the others are asked about.
		calls := len(s.plugin.Calls())
		s.manager.Refresh(func(pod *v1.Pod, _ v1.Volume) bool { require.NoError(s, s.remove(pod.UID)); return true })
		for _, call := range since(calls) {
			assert.Contains(s, call, "TearDown")
		}
	})
	play(t, volumetest.Options{Refresh: true, Shared: true}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		require.NoError(s, s.mount(podClaiming("b", "c")))
		calls := len(s.plugin.Calls())
		s.manager.Refresh(func(*v1.Pod, v1.Volume) bool { return true })
		synctest.Wait()
		assert.ElementsMatch(s, []string{"SetUp a/pv-c (remount)", "SetUp b/pv-c (remount)"}, s.plugin.Journal()[calls:], "each pod of a shared volume")
	})
	play(t, volumetest.Options{}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "one")))
		calls := len(s.plugin.Calls())
		s.manager.Refresh(func(*v1.Pod, v1.Volume) bool { s.Error("the content never changes"); return true })
		synctest.Wait()
		assert.Len(s, s.plugin.Calls(), calls)
	})
}

// Issues 82526, 51853, 132921: a pod with two volumes with the same claim waits for ever.
func TestUpstream132921TwoVolumesOneClaim(t *testing.T) {
	for _, shared := range []bool{false, true} {
		play(t, volumetest.Options{Shared: shared, Staged: shared}, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
			pod := podClaiming("a", "c")
			pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume("again", "c"))
			use(pod, "again")
			require.NoError(s, s.mount(pod))
			mounted := s.manager.GetMountedVolumesForPod("a")
			require.Len(s, mounted, 2)
			assert.Equal(s, mounted["again"], mounted["of-c"])
			assert.Equal(s, []string{"a/pv-c"}, s.plugin.Mounted())
			require.NoError(s, s.remove("a"))
			assert.Empty(s, s.plugin.Mounted())
		})
	}
}

// Issues 31272, 90593, 27463: a file server that hangs blocks the whole agent.
func TestUpstream31272HungOperationHoldsUpNobodyElse(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpSetUp && c.Volume == "nfs" {
			return volumetest.Behaviour{Hang: volumetest.HangForever}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, func(o *volumemanager.Options) { o.SetLimits(volumemanager.Limits{Parallel: 2}) }, func(s *stage) {
		var hung []func() error
		for i := range 5 {
			uid := types.UID(fmt.Sprint("hung", i))
			hung = append(hung, background(func() error { return s.mount(podWith(uid, "nfs", "local")) }))
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(s, s.mount(podWith("a", "one", "two")))
		require.NoError(s, s.remove("a"))
		assert.LessOrEqual(s, time.Since(began), 5*time.Second, "a call that hangs gives its slot back")
		time.Sleep(time.Minute)
		ops := s.manager.Snapshot().Operations
		require.Len(s, ops, 5)
		for _, o := range ops {
			assert.Equal(s, volumemanager.OpMount, o.Kind)
			assert.False(s, o.Started.IsZero())
			assert.Equal(s, volumemanager.DefaultLimits().Operation, o.Deadline.Sub(o.Started))
		}
		for _, wait := range hung {
			require.ErrorContains(s, wait(), "volume nfs: volume_mount is under way since")
		}
		s.pods.Set("hung0", volumetest.Gone)
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		require.Error(s, s.manager.WaitForUnmount(ctx, "hung0"), "what is under way may still mount")
		assert.Len(s, s.plugin.Mounted(), 4, "its other volume is unmounted meanwhile")
		s.plugin.Release()
		require.NoError(s, s.manager.WaitForUnmount(s.Context(), "hung0"))
	})
}

// A call that returns after its deadline is uncertain, whatever error the plugin returns.
func TestDeadlineMakesAMountUncertain(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Op == volumetest.OpSetUp {
			return volumetest.Behaviour{Hang: volumetest.HangUntilCancelled}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, func(o *volumemanager.Options) { o.SetLimits(volumemanager.Limits{Operation: time.Second}) }, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(1100 * time.Millisecond)
		assert.Equal(s, volumemanager.StateUncertain, s.manager.Snapshot().Volumes[0].Pods[0].State)
		require.ErrorIs(s, wait(), context.DeadlineExceeded)
		assert.FileExists(s, s.recordOf("a", "v"))
		require.NoError(s, s.remove("a"))
		assert.Contains(s, s.plugin.Journal(), "TearDown a/v", "it may have mounted something")
	})
}

// Issues 70044, 96635: the kubelet never unmounts a volume whose mount failed as uncertain, and its
// WaitForUnmount does not wait for the volume.
func TestUpstream96635UncertainMountIsTornDown(t *testing.T) {
	behave := func(c volumetest.Call) volumetest.Behaviour {
		switch c.Op {
		case volumetest.OpSetUp:
			return volumetest.Behaviour{Err: errors.New("timed out"), Done: true}
		case volumetest.OpTearDown:
			return volumetest.Behaviour{Delay: 3 * time.Second}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		require.Error(s, s.mount(podWith("a", "v")))
		require.Equal(s, []string{"a/v"}, s.plugin.Mounted())
		assert.True(s, s.manager.HasPossiblyMountedVolumesForPod("a"))
		assert.Empty(s, s.manager.GetMountedVolumesForPod("a"), "no pod may use it")
		require.NoError(s, s.remove("a"))
		assert.Empty(s, s.plugin.Mounted(), "when the wait is over, it is gone")
	})
}

// The kubelet tests error classes by type assertion, so that a wrapped error counts as final.
func TestUpstreamErrorClassesSurviveWrapping(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		state volumemanager.State
		kept  bool // whether the mount record stays
	}{
		{"plain", errors.New("x"), volumemanager.StateUncertain, true},
		{"uncertain, wrapped", fmt.Errorf("driver: %w", volumemanager.Uncertain(errors.New("x"))), volumemanager.StateUncertain, true},
		{"final, wrapped twice", fmt.Errorf("a: %w", fmt.Errorf("b: %w", volumemanager.Final(errors.New("x")))), volumemanager.StateNotMounted, false},
		{"terminal, wrapped", fmt.Errorf("a: %w", volumemanager.Terminal(errors.New("x"))), volumemanager.StateNotMounted, false},
		{"transient, wrapped", fmt.Errorf("a: %w", volumemanager.Transient(errors.New("x"))), volumemanager.StateNotMounted, false},
		{"final joined with an unknown", errors.Join(volumemanager.Final(errors.New("x")), errors.New("y")), volumemanager.StateUncertain, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			play(t, volumetest.Options{Behave: failing(volumetest.OpSetUp, always, tc.err)}, nil, func(s *stage) {
				ctx, cancel := context.WithTimeout(s.Context(), time.Second)
				defer cancel()
				require.ErrorIs(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")), tc.err)
				assert.Equal(s, tc.state, s.manager.Snapshot().Volumes[0].Pods[0].State)
				if tc.kept {
					assert.FileExists(s, s.recordOf("a", "v"))
				} else {
					assert.NoFileExists(s, s.recordOf("a", "v"))
				}
				require.NoError(s, s.remove("a"))
				assert.Equal(s, tc.kept, slices.Contains(s.plugin.Journal(), "TearDown a/v"))
			})
		})
	}
}

// The back-off equals the kubelet's: 500 ms, doubled up to 2 min 2 s.
func TestBackoffIsExact(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpSetUp, always, errors.New("no"))}, nil, func(s *stage) {
		wait := background(func() error { return s.mount(podWith("a", "v")) })
		time.Sleep(10 * time.Minute)
		require.Error(s, wait())
		var gaps []time.Duration
		calls := s.plugin.Calls()
		for i := range calls[1:] {
			gaps = append(gaps, calls[i+1].Began.Sub(calls[i].Ended))
		}
		second := time.Second
		assert.Equal(s, []time.Duration{
			second / 2, second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second, 64 * second, 122 * second, 122 * second, 122 * second,
		}, gaps[:11])
		for i, c := range calls {
			assert.Equal(s, i, c.N)
		}
	})
}

// A new sync of the pod, or its end, ends a back-off.
func TestBackoffEndsWithANewRequest(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpSetUp, 10, errors.New("no"))}, nil, func(s *stage) {
		require.Error(s, s.mount(podWith("a", "v")))
		began := time.Now()
		calls := len(s.plugin.Calls())
		ctx, cancel := context.WithTimeout(s.Context(), time.Nanosecond)
		defer cancel()
		require.Error(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")))
		assert.Len(s, s.plugin.Calls(), calls+1, "a sync of the pod tries at once")
		require.NoError(s, s.remove("a"))
		assert.LessOrEqual(s, time.Since(began), time.Microsecond, "unmounting is not held up by failed mounts")
	})
}

// Issue 128219: the kubelet unstages the device while another pod is about to mount.
func TestUpstream128219DeviceStaysForTheNextPod(t *testing.T) {
	slow := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: time.Second} }
	options := volumetest.Options{Shared: true, Staged: true, Behave: slow}
	play(t, options, func(o *volumemanager.Options) { o.Claims = claims() }, func(s *stage) {
		for i := range 20 {
			one, other := types.UID(fmt.Sprint("one", i)), types.UID(fmt.Sprint("other", i))
			require.NoError(s, s.mount(podClaiming(one, "c")))
			gone := background(func() error { return s.remove(one) })
			time.Sleep(time.Duration(i) * 200 * time.Millisecond)
			require.NoError(s, s.mount(podClaiming(other, "c")))
			require.NoError(s, gone())
			assert.Equal(s, []string{"pv-c"}, s.plugin.Staged())
			require.NoError(s, s.remove(other))
		}
	})
}

// Found by reading: the kubelet dereferences the PV of a volume without a PV.
func TestUpstreamInlineVolumeOfTwoPods(t *testing.T) {
	play(t, volumetest.Options{Shared: true}, nil, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		require.NoError(s, s.mount(podWith("b", "v")))
		assert.Len(s, s.plugin.Mounted(), 2)
	})
}

// ReadWriteOncePod: the second pod waits for the first, and its error says so.
func TestReadWriteOncePodIsForOne(t *testing.T) {
	once := func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	options := volumetest.Options{Shared: true, Staged: true}
	play(t, options, func(o *volumemanager.Options) { o.Claims = claims(once) }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")))
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		err := s.manager.WaitForAttachAndMount(ctx, podClaiming("b", "c"))
		require.ErrorContains(s, err, "has the access mode ReadWriteOncePod and is in use by pod a")
		wait := background(func() error { return s.mount(podClaiming("b", "c")) })
		synctest.Wait()
		began := time.Now()
		require.NoError(s, s.remove("a"))
		require.NoError(s, wait())
		assert.Zero(s, time.Since(began), "it is woken by the end of the first")
		assert.Equal(s, []string{"b/pv-c"}, s.plugin.Mounted())
	})
	// Two pods wait for the same staging.
	slow := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Delay: time.Second} }
	options.Behave = slow
	play(t, options, func(o *volumemanager.Options) { o.Claims = claims(once) }, func(s *stage) {
		first := background(func() error { return s.mount(podClaiming("a", "c")) })
		second := background(func() error { return s.mount(podClaiming("b", "c")) })
		time.Sleep(time.Minute)
		assert.Equal(s, []string{"MountDevice pv-c", "SetUp a/pv-c"}, s.plugin.Journal())
		require.NoError(s, first())
		require.NoError(s, s.remove("a"))
		require.NoError(s, second())
	})
}

// A volume that is expanded during its mount is not ready before.
func TestExpansionBeforeUse(t *testing.T) {
	grow := volumemanager.ClaimsFunc(func(ctx context.Context, pod *v1.Pod, vol v1.Volume) (volumemanager.Spec, error) {
		spec, err := claims()(ctx, pod, vol)
		spec.Size = resource.MustParse("2Gi")
		return spec, err
	})
	options := volumetest.Options{Shared: true, Behave: failing(volumetest.OpExpand, 2, errors.New("not yet"))}
	play(t, options, func(o *volumemanager.Options) { o.Claims = grow }, func(s *stage) {
		began := time.Now()
		require.NoError(s, s.mount(podClaiming("a", "c")))
		assert.Equal(s, 1500*time.Millisecond, time.Since(began))
		require.NoError(s, s.mount(podClaiming("b", "c")))
		assert.Equal(s, []string{"SetUp a/pv-c", "Expand pv-c", "SetUp a/pv-c", "Expand pv-c", "SetUp a/pv-c", "Expand pv-c", "SetUp b/pv-c"}, s.plugin.Journal())
	})
	options.Behave = failing(volumetest.OpExpand, always, volumemanager.Terminal(errors.New("cannot")))
	play(t, options, func(o *volumemanager.Options) { o.Claims = grow }, func(s *stage) {
		require.NoError(s, s.mount(podClaiming("a", "c")), "a node that cannot expand a volume uses it as it is")
		time.Sleep(time.Hour)
		assert.Equal(s, []string{"SetUp a/pv-c", "Expand pv-c"}, s.plugin.Journal())
	})
}

// Issue 135794: waiting for the end of many pods is a data race. (Run with -race.)
func TestUpstream135794WaitForAllPodsUnmount(t *testing.T) {
	play(t, volumetest.Options{Behave: failing(volumetest.OpTearDown, always, errors.New("busy"))}, nil, func(s *stage) {
		var uids []types.UID
		for i := range 20 {
			uid := types.UID(fmt.Sprint(i))
			uids = append(uids, uid)
			require.NoError(s, s.mount(podWith(uid, "v")))
			s.pods.Set(uid, volumetest.Gone)
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		err := s.manager.WaitForAllPodsUnmount(ctx, uids...)
		for _, uid := range uids {
			require.ErrorContains(s, err, "example.com/fake/"+string(uid)+"-v]")
		}
	})
}
