// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/logs"
)

func listOf(t *testing.T, rt Backend) map[types.UID]*runtime.PodStatus {
	t.Helper()
	pods, err := rt.List(t.Context(), runtime.ListOptions{})
	require.NoError(t, err)
	out := map[types.UID]*runtime.PodStatus{}
	for _, p := range pods {
		out[p.UID] = p
	}
	return out
}

// A container whose start was cut short is created, in the list and in the status, although the
// runtime calls it exited. A container that cannot be started is exited. The list asks about each
// container only once.
func TestFailedStarts(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, cut := made(t, rt, "cut")
	_, late := made(t, rt, "late")
	_, wrong := made(t, rt, "wrong")
	_, ran := made(t, rt, "ran")
	const noProgram = `failed to create containerd task: failed to create shim task: OCI runtime create failed: exec: "nope": executable file not found in $PATH`
	fails := func(message string) func(*api.ContainerStatus) {
		return func(c *api.ContainerStatus) { exit(c, 128); c.Reason, c.Message = "StartError", message }
	}
	s.edit(cut, fails("failed to create containerd task: failed to get task pid: context canceled"))
	s.edit(late, fails("failed to start containerd task: context deadline exceeded"))
	s.edit(wrong, fails(noProgram))
	s.edit(ran, func(c *api.ContainerStatus) { exit(c, 3); c.StartedAt = c.CreatedAt + 1 })
	want := map[types.UID]runtime.State{
		"cut": runtime.StateCreated, "late": runtime.StateCreated, "wrong": runtime.StateExited, "ran": runtime.StateExited,
	}
	for range 3 {
		pods := listOf(t, rt)
		for uid, state := range want {
			assert.Equal(t, state, pods[uid].Containers[0].State, uid)
		}
	}
	assert.Equal(t, 4, s.count("ContainerStatus"), "an ended container is asked about once")
	status := func(uid types.UID) runtime.ContainerStatus {
		st, err := rt.PodStatus(t.Context(), uid)
		require.NoError(t, err)
		return st.Containers[0]
	}
	c := status("cut")
	assert.Equal(t, runtime.StateCreated, c.State)
	assert.True(t, c.StartedAt.IsZero() && c.FinishedAt.IsZero() && c.Reason == "" && c.ExitCode == 0)
	c = status("wrong")
	assert.Equal(t, runtime.StateExited, c.State)
	assert.EqualValues(t, runtime.ExitCodeStartError, c.ExitCode)
	assert.Equal(t, []string{runtime.ReasonStartError, noProgram}, []string{c.Reason, c.Message})
	assert.True(t, c.StartedAt.IsZero())
	assert.False(t, c.FinishedAt.IsZero())
}

func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t).(*client)
	sb, id := made(t, rt, "u1")
	s.edit(id, func(c *api.ContainerStatus) { exit(c, 1) })
	listOf(t, rt)
	s.mu.Lock()
	clear(s.sandboxes)
	clear(s.containers)
	s.mu.Unlock()
	assert.Empty(t, listOf(t, rt))
	assert.Nil(t, rt.recall(sb))
	assert.Empty(t, rt.mu.neverRan)
}

// Objects removed between the list and the inspection are left out. Any other failure is returned.
func TestPodStatusOfWhatGoes(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	s.fail("ContainerStatus", codes.NotFound, "gone")
	st, err := rt.PodStatus(t.Context(), "u1")
	require.NoError(t, err)
	assert.Empty(t, st.Containers)
	assert.Len(t, st.Sandboxes, 1)
	assert.Equal(t, "pod-u1", st.Name)
	s.edit(id, func(c *api.ContainerStatus) { exit(c, 1) })
	assert.Empty(t, listOf(t, rt)["u1"].Containers)
	s.fail("PodSandboxStatus", codes.NotFound, "gone")
	st, err = rt.PodStatus(t.Context(), "u1")
	require.NoError(t, err)
	assert.Empty(t, st.Sandboxes)
	s.fail("ContainerStatus", codes.Unknown, "broken")
	_, err = rt.PodStatus(t.Context(), "u1")
	assert.ErrorContains(t, err, "broken")
}

// kubernetes#93886: with sequential inspections, a slow runtime delays a pod of many containers for
// ever. Here inspections run in parallel, within a bound.
func TestUpstream93886InspectsInParallel(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	pod := testPod("u1", names...)
	sb, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	for _, name := range names {
		_, err := rt.CreateContainer(t.Context(), sb, containerSpecOf(pod, name))
		require.NoError(t, err)
	}
	var mu sync.Mutex
	now, most := 0, 0
	full := make(chan struct{})
	var late *time.Timer
	s.inTheWay(func(_ context.Context, call string) error {
		if call != "ContainerStatus" {
			return nil
		}
		mu.Lock()
		now++
		if most = max(most, now); now == 8 && late == nil {
			late = time.AfterFunc(50*time.Millisecond, func() { close(full) }) // time for a ninth
		}
		mu.Unlock()
		<-full // blocks until eight inspections run
		mu.Lock()
		now--
		mu.Unlock()
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := rt.PodStatus(ctx, "u1")
	require.NoError(t, err)
	assert.Len(t, st.Containers, 20)
	assert.Equal(t, parallelInspections, most)
	assert.False(t, late.Stop())
	assert.True(t, slices.IsSortedFunc(st.Containers, func(a, b runtime.ContainerStatus) int { return b.CreatedAt.Compare(a.CreatedAt) }))
}

// kubernetes#26300 and #113606: a hanging pull can be cancelled.
func TestUpstream113606PullEndsWithItsContext(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	s.inTheWay(func(ctx context.Context, call string) error {
		if call == "PullImage" {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := rt.PullImage(ctx, "image", &runtime.ImageAuth{Username: "u", Password: "secret"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NotContains(t, err.Error(), "secret")
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", &runtime.ImageAuth{Password: "secret"}, &runtime.ImageAuth{Password: "secret"}, &runtime.ImageAuth{Password: "secret"}), "secret")
}

// A hanging call delays only itself.
func TestHungCallHoldsUpNobody(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, hung := made(t, rt, "u1")
	_, other := made(t, rt, "u2")
	var first atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	reached := make(chan struct{})
	s.inTheWay(func(call context.Context, name string) error {
		if name == "StartContainer" && first.CompareAndSwap(false, true) {
			close(reached)
			<-call.Done()
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { _ = rt.StartContainer(ctx, hung) })
	<-reached
	require.NoError(t, rt.StartContainer(t.Context(), other))
	require.NoError(t, rt.StopContainer(t.Context(), other, 0))
	assert.Len(t, listOf(t, rt), 2)
	cancel()
	wg.Wait()
}

// watch collects the results of a watch until f returns false.
func watch(ctx context.Context, rt Backend, f func(types.UID, error) bool) {
	for uid, err := range rt.(runtime.Watcher).Watch(ctx) {
		if !f(uid, err) {
			return
		}
	}
}

func TestWatch(t *testing.T) {
	s := newServer(t)
	s.events = make(chan *api.ContainerEventResponse, 10)
	rt := s.dial(t)
	require.True(t, rt.Info().Events)
	made(t, rt, "u1")
	_, id := made(t, rt, "u2")
	labels := map[string]string{containermeta.LabelPodUID: "u3"}
	s.events <- &api.ContainerEventResponse{ContainerId: strings.Repeat("a", 64), PodSandboxStatus: &api.PodSandboxStatus{Labels: labels}}
	s.events <- &api.ContainerEventResponse{ContainerId: strings.Repeat("b", 64), PodSandboxStatus: &api.PodSandboxStatus{}} // nobody's
	s.events <- &api.ContainerEventResponse{ContainerId: id.ID}                                                              // says little
	s.events <- &api.ContainerEventResponse{ContainerId: strings.Repeat("c", 64)}                                            // gone
	s.events <- &api.ContainerEventResponse{}
	close(s.events)
	var uids []types.UID
	var errs []error
	counter := rt.(logs.ChangeCounter)
	_, known := counter.Changes()
	assert.False(t, known)
	watch(t.Context(), rt, func(uid types.UID, err error) bool {
		if _, known := counter.Changes(); len(uids) < 4 {
			assert.True(t, known)
		}
		uids, errs = append(uids, uid), append(errs, err)
		return true
	})
	n, known := counter.Changes()
	assert.False(t, known, "the stream has ended")
	assert.EqualValues(t, 6, n, "the begin and five events")
	require.Len(t, uids, 5, "%v", errs)
	assert.ElementsMatch(t, []types.UID{"u1", "u2"}, uids[:2], "a hint for every pod that exists")
	assert.Equal(t, []types.UID{"u3", "u2"}, uids[2:4])
	assert.ErrorContains(t, errs[4], "the stream broke", "one error, and the end")
}

func TestWatchEnds(t *testing.T) {
	s := newServer(t)
	s.events = make(chan *api.ContainerEventResponse)
	rt := s.dial(t)
	made(t, rt, "u1")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	watch(ctx, rt, func(_ types.UID, err error) bool {
		require.NoError(t, err)
		n++
		cancel()
		return true
	})
	assert.Equal(t, 1, n, "ctx ended: it just stops")
	watch(t.Context(), rt, func(types.UID, error) bool { return false })
	s.fail("ListContainers", codes.Unknown, "no list")
	watch(t.Context(), rt, func(_ types.UID, err error) bool {
		require.ErrorContains(t, err, "no list")
		return true
	})
}

func TestExec(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	s.fail("ExecSync", codes.DeadlineExceeded, "timed out")
	_, _, _, err := rt.Exec(t.Context(), id, []string{"true"})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	_, _, _, err = rt.Exec(t.Context(), id, nil)
	assert.ErrorContains(t, err, "no command")
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	assert.EqualValues(t, 2, secondsLeft(ctx))
	assert.Zero(t, secondsLeft(t.Context()))
	assert.Len(t, firstBytes(make([]byte, 100<<10)), maxOutput)
}
