// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/contexttest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// The hook gets every field of a finished operation: here of two volumes that share one slot, one of
// them with a failure.
func TestHookIsToldTheWholeOperation(t *testing.T) {
	failed := volumemanager.Final(errors.New("no"))
	behave := func(c volumetest.Call) volumetest.Behaviour {
		b := volumetest.Behaviour{Delay: 300 * time.Millisecond}
		if c.Op == volumetest.OpSetUp && c.Volume == "two" && c.N == 0 {
			b.Err = failed
		}
		return b
	}
	edit := func(o *volumemanager.Options) { o.SetLimits(volumemanager.Limits{Parallel: 1}) }
	play(t, volumetest.Options{Behave: behave}, edit, func(s *stage) {
		began, pod := time.Now(), podWith("a", "one", "two")
		require.NoError(s, s.mount(pod))
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(s, s.ends, 3)
		ms := func(t time.Time) int { return int(t.Sub(began).Milliseconds()) }
		type times struct{ queued, started, ended, deadline int }
		ends := map[string][]times{}
		for _, e := range s.ends {
			ends[e.Outer[0]] = append(ends[e.Outer[0]], times{ms(e.Queued), ms(e.Started), ms(e.Ended), ms(e.Deadline)})
			assert.Equal(s, volumemanager.OpMount, e.Kind)
			assert.Equal(s, types.UID("a"), e.PodUID)
			assert.Equal(s, "example.com/fake/a-"+e.Outer[0], string(e.Volume))
			assert.Same(s, pod, e.Pod)
			assert.Equal(s, began, e.Requested)
		}
		const limit = 120_000
		switch first, second := ends["one"], ends["two"]; {
		case first[0].started == 0:
			assert.Equal(s, []times{{0, 0, 300, limit}}, first)
			assert.Equal(s, []times{{0, 300, 600, 300 + limit}, {1100, 1100, 1400, 1100 + limit}}, second)
		default:
			assert.Equal(s, []times{{0, 300, 600, 300 + limit}}, first)
			assert.Equal(s, []times{{0, 0, 300, limit}, {800, 800, 1100, 800 + limit}}, second)
		}
		last := s.ends[2]
		assert.Equal(s, 1, last.Attempt)
		require.NoError(s, last.Err)
		assert.Equal(s, 1, len(ends["one"]))
		for _, e := range s.ends[:2] {
			assert.Zero(s, e.Attempt)
			if e.Outer[0] == "two" {
				require.ErrorIs(s, e.Err, failed)
			} else {
				require.NoError(s, e.Err)
			}
		}
	})
}

// Every error of a wait names the pod and its volumes, whatever the reason.
func TestErrorsOfWaitsAreComplete(t *testing.T) {
	busy := errors.New("busy")
	cause := errors.New("the pod was killed")
	behave := func(volumetest.Call) volumetest.Behaviour { return volumetest.Behaviour{Err: busy} }
	pod := podWith("a", "v")
	use(pod, "undefined")
	refused := []string{"undefined"}
	for _, tc := range []struct {
		name        string
		when        func(*stage) context.Context
		unmounted   []string
		unprocessed []string
		err         error
	}{
		{"a refused volume", func(s *stage) context.Context { return s.Context() }, []string{"undefined", "v"}, refused, volumemanager.ErrTerminal},
		{"a terminating pod", func(s *stage) context.Context {
			s.pods.Set("a", volumetest.Terminating)
			return s.Context()
		}, []string{"undefined", "v"}, nil, volumemanager.ErrPodTerminating},
		{"a refused volume, in a context that has ended", func(s *stage) context.Context {
			ctx, cancel := context.WithCancelCause(s.Context())
			cancel(cause)
			return ctx
		}, []string{"undefined", "v"}, refused, volumemanager.ErrTerminal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
				var e *volumemanager.MountError
				require.ErrorAs(s, s.manager.WaitForAttachAndMount(tc.when(s), pod), &e)
				assert.Equal(s, types.UID("a"), e.PodUID)
				assert.Equal(s, tc.unmounted, e.Unmounted)
				assert.Equal(s, tc.unprocessed, e.Unprocessed)
				assert.Empty(s, e.Unattached)
				require.ErrorIs(s, e, tc.err)
			})
		})
	}
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var e *volumemanager.MountError
		require.ErrorAs(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "e", "b", "d", "a", "c")), &e)
		assert.Equal(s, []string{"a", "b", "c", "d", "e"}, e.Unmounted)
		s.pods.Set("b", volumetest.Terminating)
		require.ErrorAs(s, s.mount(podWith("b", "y", "z", "x")), &e)
		assert.Equal(s, []string{"x", "y", "z"}, e.Unmounted)
	})
	playAttached(t, volumetest.Options{}, func(s *stage, _ *cluster) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var e *volumemanager.MountError
		require.ErrorAs(s, s.manager.WaitForAttachAndMount(ctx, podClaiming("a", "y", "z", "x")), &e)
		assert.Equal(s, []string{"of-x", "of-y", "of-z"}, e.Unattached)
	})
	play(t, volumetest.Options{Behave: behave}, nil, func(s *stage) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		require.ErrorIs(s, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")), busy)
		s.pods.Set("a", volumetest.Gone)
		var e *volumemanager.UnmountError
		require.ErrorAs(s, s.manager.WaitForUnmount(ctx, "a"), &e)
		assert.Equal(s, types.UID("a"), e.PodUID)
		assert.Equal(s, []string{"example.com/fake/a-v"}, e.Mounted)
	})
}

// A pod that asked for its volume before Reconstruct had found the volume, and then ended, leaves
// nothing.
func TestRequestBeforeReconstruct(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{Folders: true}, nil)
		dir := filepath.Join(root, "pods/a/volumes/example.com~fake/v")
		require.NoError(t, os.MkdirAll(dir, 0o750))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var e *volumemanager.MountError
		require.ErrorAs(t, s.manager.WaitForAttachAndMount(ctx, podWith("a", "v")), &e)
		s.pods.Set("a", volumetest.Gone)
		require.NoError(t, s.manager.Reconcile(t.Context()))
		assert.Equal(t, []string{"TearDown a/v"}, s.plugin.Journal())
		assert.NoDirExists(t, dir)
	})
}

// The folders and records of volumes are not readable by other users.
func TestModesOnDisk(t *testing.T) {
	root := filepath.Join(memoryDir(t), "new", "root")
	synctest.Test(t, func(t *testing.T) {
		edit := func(o *volumemanager.Options) { o.Claims = claims() }
		s := newStage(t, root, volumetest.Options{Shared: true, Staged: true}, edit)
		s.start()
		defer s.stop()
		require.NoError(t, s.mount(podClaiming("a", "c")))
		for path, want := range map[string]os.FileMode{
			root: 0o750, root + "/pods": 0o750, root + "/pods/a": 0o750, root + "/volumemanager": 0o750,
			root + "/volumemanager/devices": 0o750, s.recordOf("a", "pv-c"): 0o600,
			volumemanager.DeviceRecordPath(root, "example.com/fake/pv-c"): 0o600,
		} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, want, info.Mode().Perm(), path)
		}
	})
}

// The records hold everything that a plugin needs after a restart without a cluster.
func TestRecordsHoldTheWholeVolume(t *testing.T) {
	c := &cluster{attached: map[v1.UniqueVolumeName]string{attachedName: "/dev/hint"}}
	edit := func(o *volumemanager.Options) { o.Claims, o.Node = claims(), c }
	playRecorded(t, volumetest.Options{Shared: true, Staged: true, Attachable: true}, edit, func(s *stage, r *recorder) {
		wait := background(func() error { return s.mount(podClaiming("a", "c")) })
		synctest.Wait()
		s.manager.MarkVolumesAsReportedInUse(s.manager.GetVolumesInUse())
		require.NoError(s, wait())
		staging := s.root + "/plugins/example.com~fake/pv-c/globalmount"
		var mount volumemanager.MountRecord
		spec := readRecord(s, s.recordOf("a", "pv-c"), &mount)
		assert.Equal(s, volumemanager.MountRecord{
			Version: 1, PodUID: "a", Plugin: "example.com/fake", Inner: "pv-c", Namespace: "default", Pod: "pod-a",
			Outer: []string{"of-c"}, Spec: mount.Spec, DevicePath: "/dev/found", DeviceDir: staging,
		}, mount)
		var device volumemanager.DeviceRecord
		assert.Equal(s, spec, readRecord(s, volumemanager.DeviceRecordPath(s.root, attachedName), &device))
		assert.Equal(s, volumemanager.DeviceRecord{
			Version: 1, Volume: string(attachedName), Plugin: "example.com/fake", Spec: device.Spec, DevicePath: "/dev/found", DeviceDir: staging,
		}, device)
		s.restart()
		require.NoError(s, s.remove("a"))
		synctest.Wait()
		require.Len(s, r.tornDown, 1)
		assert.Equal(s, staging, r.tornDown[0].DeviceDir)
		require.Len(s, r.unstaged, 1)
		assert.Equal(s, []string{s.root, "/dev/found", staging}, []string{r.unstaged[0].Root, r.unstaged[0].Path, r.unstaged[0].Dir})
		assert.Equal(s, "pv-c", r.unstaged[0].Spec.PV.Name)
	})
}

// readRecord decodes a record, and returns its spec as text.
func readRecord(t require.TestingT, path string, record any) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, record))
	var parts struct{ Spec json.RawMessage }
	require.NoError(t, json.Unmarshal(data, &parts))
	return string(parts.Spec)
}

// slowToFind is a plugin whose volumes on disk are found late.
type slowToFind struct{ *volumetest.Plugin }

func (slowToFind) Reconstruct(volumemanager.Place) (volumemanager.Spec, error) {
	time.Sleep(10 * time.Second)
	return volumemanager.Spec{}, nil
}

// Calls wait until Run has found the volumes of the last run, or until their context ends.
func TestCallsWaitForReconstruct(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{}, func(o *volumemanager.Options) {
			o.Plugins[0] = slowToFind{o.Plugins[0].(*volumetest.Plugin)}
		})
		require.NoError(t, os.MkdirAll(filepath.Join(root, "pods/a/volumes/example.com~fake/v"), 0o750))
		s.start()
		defer func() { s.stop() }()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var e *volumemanager.MountError
		require.ErrorAs(t, s.manager.WaitForAttachAndMount(ctx, podWith("b", "v")), &e)
		assert.Equal(t, &volumemanager.MountError{PodUID: "b", Err: context.DeadlineExceeded}, e)
		require.ErrorIs(t, s.manager.Reconstruct(ctx), context.DeadlineExceeded)
		assert.False(t, s.manager.ReconcilerStatesHasBeenSynced())
		s.pods.Set("b", volumetest.Gone)
		waits := []func() error{
			background(func() error { return s.mount(podWith("a", "v")) }),
			background(func() error { return s.manager.WaitForUnmount(t.Context(), "b") }),
			background(func() error { return s.manager.Reconcile(t.Context()) }),
		}
		for _, wait := range waits {
			require.NoError(t, wait())
			assert.Equal(t, 10*time.Second, time.Since(began))
		}
		assert.Equal(t, []string{"SetUp a/v (reconstructed)"}, s.plugin.Journal())
	})
}

// Run logs that the volumes of the last run were not all found, unless its context has ended.
func TestRunLogsWhatReconstructMissed(t *testing.T) {
	for _, ended := range []bool{false, true} {
		core, logs := observer.New(zap.ErrorLevel)
		root := memoryDir(t)
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, root, volumetest.Options{}, func(o *volumemanager.Options) { o.Logger = zap.New(core) })
			s.files("volumemanager/devices/0123.json")
			ctx, cancel := context.WithCancel(t.Context())
			if ended {
				cancel()
			}
			done := background(func() error { return s.manager.Run(ctx) })
			synctest.Wait()
			cancel()
			require.NoError(t, done())
		})
		want := 1
		if ended {
			want = 0
		}
		assert.Len(t, logs.All(), want)
	}
}

// Every failed operation is logged once. Successes, and the mounting that is cancelled because its
// pod has ended, are not logged.
func TestOnlyFailuresAreLogged(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	behave := func(c volumetest.Call) volumetest.Behaviour {
		if c.Volume == "slow" {
			return volumetest.Behaviour{Delay: time.Minute}
		}
		if c.Op == volumetest.OpSetUp && c.N < 2 {
			return volumetest.Behaviour{Err: errBusy}
		}
		return volumetest.Behaviour{}
	}
	play(t, volumetest.Options{Behave: behave}, func(o *volumemanager.Options) { o.Logger = zap.New(core) }, func(s *stage) {
		require.NoError(s, s.mount(podWith("a", "v")))
		wait := background(func() error { return s.mount(podWith("b", "slow")) })
		synctest.Wait()
		require.NoError(s, s.remove("b"))
		require.ErrorIs(s, wait(), volumemanager.ErrPodTerminating)
		require.NoError(s, s.remove("a"))
		require.Len(s, logs.All(), 2)
		for i, entry := range logs.All() {
			fields := entry.ContextMap()
			assert.EqualValues(s, i, fields["attempt"])
			assert.Equal(s, "default/pod-a", fields["pod"])
		}
	})
}

// The contexts of Run and of calls live for months: a finished operation or call leaves nothing behind at them.
func TestOperationsLeaveNothingAtTheContext(t *testing.T) {
	root := memoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, root, volumetest.Options{Behave: failing(volumetest.OpSetUp, 1, errBusy)}, nil)
		parent, cancel := context.WithCancel(t.Context())
		ctx := contexttest.New(parent)
		done := background(func() error { return s.manager.Run(ctx) })
		synctest.Wait()
		before := ctx.Waiting()
		for i := range 20 {
			uid := types.UID(strconv.Itoa(i))
			require.NoError(t, s.manager.WaitForAttachAndMount(ctx, podWith(uid, "one", "two")))
			s.pods.Set(uid, volumetest.Gone)
			require.NoError(t, s.manager.WaitForUnmount(ctx, uid))
		}
		synctest.Wait()
		assert.Equal(t, before, ctx.Waiting())
		cancel()
		require.NoError(t, done())
	})
}

// The cause of its context ends Reconcile between two operations.
func TestReconcileEndsWithItsContext(t *testing.T) {
	root, cause := memoryDir(t), errors.New("the node shuts down")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStage(t, root, volumetest.Options{Shared: true, Staged: true}, func(o *volumemanager.Options) {
			o.Claims = claims()
			o.Hooks.OperationEnded = func(volumemanager.OperationEnd) { cancel(cause) }
		})
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.Error(t, s.manager.WaitForAttachAndMount(short, podClaiming("a", "c")))
		require.ErrorIs(t, s.manager.Reconcile(ctx), cause)
		assert.Equal(t, []string{"MountDevice pv-c"}, s.plugin.Journal())
	})
}

// Files and pipes in the places of folders are no volumes, and no obstacle.
func TestFilesInPlacesOfFolders(t *testing.T) {
	for _, file := range []string{"pods", "pods/a", "pods/a/volumes", "pods/a/volumes/example.com~fake", "volumemanager/devices"} {
		for _, kind := range []string{"file", "pipe"} {
			t.Run(file+" is a "+kind, func(t *testing.T) {
				play(t, volumetest.Options{}, noMounts, func(s *stage) {
					s.stop()
					require.NoError(s, os.RemoveAll(filepath.Join(s.root, file)))
					s.files(file)
					if kind == "pipe" {
						path := filepath.Join(s.root, file)
						require.NoError(s, inPlace(path, func() error { return syscall.Mkfifo(path, 0o600) }))
					}
					s.renew()
					require.NoError(s, s.manager.Reconstruct(s.Context()))
					assert.Empty(s, s.manager.Snapshot().Volumes)
				})
			})
		}
	}
}
