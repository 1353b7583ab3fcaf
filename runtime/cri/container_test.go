// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func TestCreateInWhatIsNotThere(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	pod := testPod("u1", "main")
	_, err := rt.CreateContainer(t.Context(), "0123456789abcdef", containerSpecOf(pod, "main"))
	assert.ErrorIs(t, err, runtime.ErrNotFound, "no such sandbox")

	sb, _ := made(t, rt, "u2")
	pod.Spec.Containers[0].Image = "absent"
	_, err = rt.CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	assert.ErrorContains(t, err, `image "absent" is not on the node`)
	assert.NotErrorIs(t, err, runtime.ErrNotFound, "the sandbox is there")

	s.fail("CreateContainer", codes.NotFound, "snapshot not found")
	pod.Spec.Containers[0].Image = "image"
	_, err = rt.CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	assert.ErrorContains(t, err, "snapshot not found")
	assert.NotErrorIs(t, err, runtime.ErrNotFound, "the sandbox is there")
}

func TestSpecsThatMakeNoSense(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, err := rt.RunSandbox(t.Context(), runtime.SandboxSpec{})
	assert.ErrorContains(t, err, "SandboxSpec.Pod")
	_, err = rt.RunSandbox(t.Context(), runtime.SandboxSpec{Pod: testPod("u1")})
	assert.ErrorContains(t, err, "want UID, Namespace and Name")
	sb, _ := made(t, rt, "u1")
	_, err = rt.CreateContainer(t.Context(), sb, runtime.ContainerSpec{Name: "main"})
	assert.ErrorContains(t, err, "want Pod and Container")
	spec := containerSpecOf(testPod("u1", "main"), "main")
	spec.LogPath = "/elsewhere/0.log"
	_, err = rt.CreateContainer(t.Context(), sb, spec)
	assert.Error(t, err, "the log is not below the sandbox's directory")
	bad := testPod("../../etc", "main")
	_, err = rt.CreateContainer(t.Context(), sb, containerSpecOf(bad, "main"))
	assert.ErrorContains(t, err, "makes no file name")
	assert.Zero(t, s.count("CreateContainer")-1)
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	pod := testPod("u1", "main")
	_, id := made(t, rt, "u1")
	s.edit(id, func(c *api.ContainerStatus) { c.Metadata = nil })
	_, err := rt.PodStatus(t.Context(), "u1")
	assert.ErrorContains(t, err, "without a status")
	pods, err := rt.List(t.Context(), runtime.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	assert.Empty(t, pods[0].Containers, "what has no metadata is left out")
	assert.NoError(t, rt.(*client).files.removePod(pod.UID))
}

// The message file is made for the container and removed with the container, and so are the cached
// facts.
func TestFilesOfAContainer(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	root := rt.(*client).opts.Root
	sb, id := made(t, rt, "u1")
	files, err := filepath.Glob(root + "/pods/u1/containers/main/*")
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o666), info.Mode().Perm(), "whoever runs in it may write")
	hosts, err := os.ReadFile(root + "/pods/u1/etc-hosts")
	require.NoError(t, err)
	assert.Contains(t, string(hosts), "10.0.0.7\thost\n")

	require.NoError(t, rt.StopContainer(t.Context(), id, 0))
	mark := root + "/keelson/stopped/" + id.ID
	assert.FileExists(t, mark)
	again, err := Dial(t.Context(), s.socket, Options{Root: root})
	require.NoError(t, err)
	defer again.Close()
	assert.ErrorContains(t, rt.StartContainer(t.Context(), id), "was stopped before it was started")
	assert.ErrorContains(t, again.StartContainer(t.Context(), id), "was stopped before it was started")
	listOf(t, rt)
	assert.FileExists(t, mark, "what exists stays marked")
	require.NoError(t, rt.RemoveContainer(t.Context(), id))
	assert.NoFileExists(t, files[0])
	assert.NoFileExists(t, mark)

	// A pod volume in the same directory is not the agent's.
	require.NoError(t, os.MkdirAll(root+"/pods/u1/volumes", 0o700))
	require.NoError(t, rt.RemoveSandbox(t.Context(), sb))
	assert.NoFileExists(t, root+"/pods/u1/etc-hosts")
	assert.DirExists(t, root+"/pods/u1/volumes")
}

// A failed creation leaves no file behind.
func TestNoFileOfWhatWasNotMade(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	pod := testPod("u1", "main")
	sb, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)
	s.fail("CreateContainer", codes.Unknown, "no")
	_, err = rt.CreateContainer(t.Context(), sb, containerSpecOf(pod, "main"))
	require.Error(t, err)
	files, err := filepath.Glob(rt.(*client).opts.Root + "/pods/u1/containers/*/*")
	require.NoError(t, err)
	assert.Empty(t, files)
}

// A sandbox made by another agent, or by an earlier process of the agent, is used with the facts of
// its status.
func TestSandboxOfAnotherAgent(t *testing.T) {
	s := newServer(t)
	first := s.dial(t)
	pod := testPod("u1", "main")
	sb, err := first.RunSandbox(t.Context(), sandboxSpecOf(pod))
	require.NoError(t, err)

	second := s.dial(t)
	spec := containerSpecOf(pod, "main")
	logs := t.TempDir()
	spec.LogPath = logs + "/main/0.log"
	_, err = second.CreateContainer(t.Context(), sb, spec)
	require.NoError(t, err)
	config := second.(*client).recall(sb).config
	assert.Equal(t, "host", config.GetHostname())
	assert.Equal(t, logs, config.GetLogDirectory())
	assert.Equal(t, "u1", config.GetMetadata().GetUid())
	assert.DirExists(t, logs+"/main")
}

func TestStartOutcomeIsWaitedFor(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	ctx, cancel := context.WithCancel(t.Context())
	s.inTheWay(func(_ context.Context, call string) error {
		if call == "StartContainer" {
			cancel()
			<-time.After(50 * time.Millisecond)
		}
		return nil
	})
	require.NoError(t, rt.StartContainer(ctx, id), "it was started")
	assert.Equal(t, api.ContainerState_CONTAINER_RUNNING, s.state(id))
	require.ErrorIs(t, rt.StartContainer(ctx, id), context.Canceled, "a ctx that has ended starts nothing")
}

// The pod of kubernetes#125050 was deleted while a start was under way, and was started all the
// same. Here the next stop also stops a start continued by the runtime after the call was cut
// short.
func TestUpstream125050StartThatWasGivenUpIsStopped(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	ctx, cancel := context.WithCancel(t.Context())
	var late sync.WaitGroup
	s.inTheWay(func(call context.Context, name string) error {
		if name != "StartContainer" {
			return nil
		}
		cancel()
		<-call.Done() // the call is given up
		late.Go(func() {
			<-time.After(200 * time.Millisecond)
			s.edit(id, func(c *api.ContainerStatus) {
				c.State, c.StartedAt = api.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
			})
		})
		return call.Err()
	})
	began := time.Now()
	require.ErrorIs(t, rt.StartContainer(ctx, id), context.Canceled)
	assert.Less(t, time.Since(began), startPatience+5*time.Second)
	assert.Equal(t, api.ContainerState_CONTAINER_CREATED, s.state(id))
	require.NoError(t, rt.StopContainer(t.Context(), id, time.Minute))
	late.Wait()
	assert.Equal(t, api.ContainerState_CONTAINER_EXITED, s.state(id))
}

// A stop waits for the start under way, but not longer than its own ctx.
func TestStopWaitsForTheStart(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	starting, goOn := make(chan struct{}), make(chan struct{})
	s.inTheWay(func(_ context.Context, call string) error {
		if call == "StartContainer" {
			close(starting)
			<-goOn
		}
		return nil
	})
	var wg sync.WaitGroup
	var startErr error
	wg.Go(func() { startErr = rt.StartContainer(t.Context(), id) })
	<-starting
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, rt.StopContainer(ctx, id, 0), context.DeadlineExceeded)
	assert.Zero(t, s.count("StopContainer"))
	wg.Go(func() { <-time.After(20 * time.Millisecond); close(goOn) })
	require.NoError(t, rt.StopContainer(t.Context(), id, 0))
	wg.Wait()
	require.NoError(t, startErr)
	assert.Equal(t, api.ContainerState_CONTAINER_EXITED, s.state(id))
}

// containerd reports a stop as done before the status is exited.
func TestStopReturnsWhenTheStatusSaysSo(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	// The server ends only running containers, so the unknown state lasts.
	s.edit(id, func(c *api.ContainerStatus) { c.State, c.StartedAt = api.ContainerState_CONTAINER_UNKNOWN, 1 })
	var asked atomic.Int32
	s.inTheWay(func(_ context.Context, call string) error {
		if call == "ContainerStatus" && asked.Add(1) == 3 {
			s.edit(id, func(c *api.ContainerStatus) { exit(c, 0) })
		}
		return nil
	})
	require.NoError(t, rt.StopContainer(t.Context(), id, time.Minute))
	assert.EqualValues(t, 3, asked.Load())
}

// A grace period with a fraction of a second is timed by our own clock.
func TestStopWithPartsOfASecond(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	_, id := made(t, rt, "u1")
	require.NoError(t, rt.StartContainer(t.Context(), id))
	s.inTheWay(func(ctx context.Context, call string) error {
		if call == "StopContainer" && s.count("StopContainer") == 1 {
			<-ctx.Done() // ignores SIGTERM
			return status.FromContextError(ctx.Err()).Err()
		}
		return nil
	})
	began := time.Now()
	require.NoError(t, rt.StopContainer(t.Context(), id, 60*time.Millisecond))
	assert.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
	assert.Equal(t, 2, s.count("StopContainer"))
}

func TestRefusedPod(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	pod := testPod("u1", "main")
	class := "gvisor"
	no := false
	pod.Spec.RuntimeClassName, pod.Spec.HostUsers = &class, &no
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk"}}
	var refused *runtime.UnsupportedError
	require.ErrorAs(t, rt.CheckPod(pod), &refused)
	assert.Equal(t, []string{
		"spec.containers[0].volumeDevices (block devices cannot be attached)",
		"spec.hostUsers (this node has no IDs for user namespaces)",
		"spec.runtimeClassName (the node has no such class)",
	}, refused.Fields)
	_, err := rt.RunSandbox(t.Context(), sandboxSpecOf(pod))
	assert.Equal(t, refused, err)
}

// A list removes marks of containers removed by other clients. Fresh marks stay, because the list
// may be older than the container.
func TestMarksAreSwept(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	f := rt.(*client).files
	require.NoError(t, f.markStopped("old"))
	require.NoError(t, f.markStopped("fresh"))
	hour := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(f.root, stoppedDir, "old"), hour, hour))
	listOf(t, rt)
	old, err := f.isStopped("old")
	require.NoError(t, err)
	fresh, err := f.isStopped("fresh")
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true}, []bool{old, fresh})
}

func TestRemovalOfAnOldSandboxKeepsThePodsFiles(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	old, _ := made(t, rt, "u1")
	made(t, rt, "u1")
	require.NoError(t, rt.RemoveSandbox(t.Context(), old))
	assert.FileExists(t, rt.(*client).opts.Root+"/pods/u1/etc-hosts")
	st, err := rt.PodStatus(t.Context(), "u1")
	require.NoError(t, err)
	assert.Len(t, st.Sandboxes, 1)
	assert.Len(t, st.Containers, 1)
}

// Runtimes differ in the grace given to containers when a sandbox is stopped.
func TestStopSandboxKillsFirst(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	sb, id := made(t, rt, "u1")
	require.NoError(t, rt.StartContainer(t.Context(), id))
	s.inTheWay(func(_ context.Context, call string) error {
		if call == "StopPodSandbox" && s.state(id) != api.ContainerState_CONTAINER_EXITED {
			return status.Error(codes.Unknown, "it still runs")
		}
		return nil
	})
	require.NoError(t, rt.StopSandbox(t.Context(), sb))
}
