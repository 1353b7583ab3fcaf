// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// logsOf makes a folder of logs with the given files of container "c" and
// returns a generator over it, a pod, and the container's folder.
func logsOf(t *testing.T, names ...string) (*runtime.DefaultGenerator, *v1.Pod, string) {
	t.Helper()
	root := t.TempDir()
	g, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: root})
	require.NoError(t, err)
	pod := newPod()
	dir := filepath.Join(root, "default_web_uid-web", "c")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o600))
	}
	return g, pod, dir
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRemoveLogsTakesOneInstanceOnly(t *testing.T) {
	g, pod, dir := logsOf(t, "1.log", "1.log.20260701-120000", "1.log.20260701-110000.gz", "11.log", "1.logs", "2.log", "notes")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1.log.folder"), 0o700))
	require.NoError(t, g.RemoveLogs(pod, "c", 1))
	require.Equal(t, []string{"1.log.folder", "1.logs", "11.log", "2.log", "notes"}, namesIn(t, dir))
	require.NoError(t, g.RemoveLogs(pod, "c", 1), "again")
	require.NoError(t, g.RemoveLogs(pod, "other", 1))
	stranger := newPod()
	stranger.UID = "another"
	require.NoError(t, g.RemoveLogs(stranger, "c", 2))
	require.EqualValues(t, 12, g.NextRestartCount(pod, "c"))
}

func TestRemoveLogsDoesNotLeaveThePodsFolder(t *testing.T) {
	for _, tt := range []struct {
		name string
		// link replaces something below root by a link to victim.
		link func(root, victim string) error
	}{
		{"the container's folder is a link", func(root, victim string) error {
			dir := filepath.Join(root, "default_web_uid-web", "c")
			return firstError(os.RemoveAll(dir), os.Symlink(victim, dir))
		}},
		{"the pod's folder is a link", func(root, victim string) error {
			dir := filepath.Join(root, "default_web_uid-web")
			return firstError(os.RemoveAll(dir), os.Symlink(filepath.Dir(victim), dir))
		}},
		{"the container's folder is a relative link to another pod's", func(root, _ string) error {
			dir := filepath.Join(root, "default_web_uid-web", "c")
			return firstError(os.RemoveAll(dir), os.Symlink("../default_other_uid/c", dir))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, pod, dir := logsOf(t)
			root := filepath.Dir(filepath.Dir(dir))
			outside := filepath.Join(t.TempDir(), "c")
			inside := filepath.Join(root, "default_other_uid", "c")
			for _, victim := range []string{outside, inside} {
				require.NoError(t, os.MkdirAll(victim, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(victim, "1.log"), nil, 0o600))
			}
			require.NoError(t, tt.link(root, outside))
			var refused *fs.PathError
			require.ErrorAs(t, g.RemoveLogs(pod, "c", 1), &refused)
			require.EqualError(t, refused.Err, "is not a directory")
			require.Equal(t, "open", refused.Op)
			require.True(t, strings.HasPrefix(refused.Path, root), refused.Path)
			require.FileExists(t, filepath.Join(outside, "1.log"))
			require.FileExists(t, filepath.Join(inside, "1.log"))
		})
	}
	t.Run("a log that is a link", func(t *testing.T) {
		g, pod, dir := logsOf(t)
		victim := filepath.Join(t.TempDir(), "victim")
		require.NoError(t, os.WriteFile(victim, nil, 0o600))
		require.NoError(t, os.Symlink(victim, filepath.Join(dir, "1.log")))
		require.NoError(t, g.RemoveLogs(pod, "c", 1))
		require.Empty(t, namesIn(t, dir))
		require.FileExists(t, victim)
	})
	t.Run("a log root that is no folder", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "logs")
		require.NoError(t, os.WriteFile(root, nil, 0o600))
		g, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: root})
		require.NoError(t, err)
		require.Error(t, g.RemoveLogs(newPod(), "c", 1))
	})
	t.Run("names that climb", func(t *testing.T) {
		g, pod, _ := logsOf(t, "1.log")
		require.Error(t, g.RemoveLogs(pod, "..", 1))
		pod.UID = "../.."
		require.Error(t, g.RemoveLogs(pod, "c", 1))
	})
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCrashLoopKeepsTheLogsOfTwoInstances: the logs of the running instance and of the last ended
// instance stay.
func TestCrashLoopKeepsTheLogsOfTwoInstances(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		pod := newPod(regular("c", "steady"))
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1))
		dir := filepath.Join(n.logs, "default_web_uid-web", "c")
		for restart := range 20 {
			status := n.mustSync(pod)
			require.EqualValues(n, restart, status.Latest("c").RestartCount)
			want := []string{fmt.Sprintf("%d.log", restart), fmt.Sprintf("%d.log.20260701-120000", restart)}
			if restart > 0 {
				want = append(want, fmt.Sprintf("%d.log", restart-1), fmt.Sprintf("%d.log.20260701-120000", restart-1))
			}
			rotated := filepath.Join(dir, fmt.Sprintf("%d.log.20260701-120000", restart))
			require.NoError(n, os.WriteFile(rotated, nil, 0o600))
			require.ElementsMatch(n, want, namesIn(n.T, dir))
			require.NoError(n, n.collect())
			require.ElementsMatch(n, want, namesIn(n.T, dir), "there is nothing left to collect")
			n.pass(10 * time.Minute)
		}
		require.Equal(n, []string{"0.log"}, namesIn(n.T, filepath.Join(n.logs, "default_web_uid-web", "steady")))

		// The records are lost: the count goes on all the same.
		world, err := fake.NewWorld(fake.WorldOptions{WriteLogs: true})
		require.NoError(n, err)
		defer world.Close()
		n.rt, err = fake.New(fake.Options{World: world})
		require.NoError(n, err)
		n.over(n.rt)
		require.EqualValues(n, 20, n.mustSync(pod).Latest("c").RestartCount)
	})
}

// TestLogsStayWithTheRecordsThatStay: a record that cannot be removed keeps its logs, and logs that
// cannot be removed delay nothing.
func TestLogsStayWithTheRecordsThatStay(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		core, logs := observer.New(zap.WarnLevel)
		g, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: n.logs})
		require.NoError(n, err)
		n.manager, err = runtime.New(runtime.Options{Runtime: n.rt, Generator: g, Events: n.events, Logger: zap.New(core)})
		require.NoError(n, err)
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1))
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer}, Times: 1, Err: os.ErrDeadlineExceeded})
		dir := filepath.Join(n.logs, "default_web_uid-web", "c")
		for range 3 {
			n.mustSync(pod)
			n.pass(10 * time.Minute)
		}
		require.Equal(n, []string{"0.log", "1.log", "2.log"}, namesIn(n.T, dir), "the record of 0 is still there")
		require.NoError(n, firstError(os.Rename(dir, dir+".away"), os.Symlink(dir+".away", dir)))
		n.mustSync(pod)
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		require.Len(n, status.Containers, 2)
		require.Equal(n, []string{"0.log", "1.log", "2.log", "3.log"}, namesIn(n.T, dir+".away"))
		var said []string
		for _, e := range logs.All() {
			said = append(said, e.Message)
		}
		require.Equal(n, []string{"could not remove an ended container", "could not remove the logs of an ended container", "could not remove the logs of an ended container"}, said)
	})
}

// TestLogsOfSharedRestartCountsStay: records that another agent has made may
// share a restart count, and so a log, or not ascend.
func TestLogsOfSharedRestartCountsStay(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 0))
		n.mustSync(pod)
		status, err := n.rt.PodStatus(n.Context(), pod.UID)
		require.NoError(n, err)
		dir := filepath.Join(n.logs, "default_web_uid-web", "c")
		for _, count := range []int32{9, 3, 5, 5} {
			n.pass(10 * time.Minute)
			id, err := n.rt.CreateContainer(n.Context(), status.Sandboxes[0].ID, runtime.ContainerSpec{
				Name: "c", RestartCount: count, Pod: pod, LogPath: filepath.Join(dir, fmt.Sprintf("%d.log", count)),
			})
			require.NoError(n, err)
			require.NoError(n, n.rt.StartContainer(n.Context(), id))
		}
		n.pass(10 * time.Minute)
		status = n.mustSync(pod)
		require.EqualValues(n, 10, status.Latest("c").RestartCount)
		require.Len(n, status.Containers, 2)
		require.Equal(n, []string{"10.log", "5.log"}, namesIn(n.T, dir))
	})
}

// plainGenerator has none of the optional abilities.
type plainGenerator struct{ g runtime.Generator }

func (p plainGenerator) Sandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (runtime.SandboxSpec, error) {
	return p.g.Sandbox(ctx, pod, attempt)
}

func (p plainGenerator) Container(ctx context.Context, pod *v1.Pod, ref runtime.Ref, in runtime.ContainerInput) (runtime.ContainerSpec, func(), error) {
	return p.g.Container(ctx, pod, ref, in)
}

func TestLogsStayWithoutALogRemover(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		g, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: n.logs})
		require.NoError(n, err)
		n.manager, err = runtime.New(runtime.Options{Runtime: n.rt, Generator: plainGenerator{g}})
		require.NoError(n, err)
		pod := newPod()
		n.world.Script(fake.Target{Container: "c"}, fake.Exit(time.Second, 1))
		for range 4 {
			n.mustSync(pod)
			n.pass(10 * time.Minute)
		}
		require.Len(n, n.files(), 4)
		require.Equal(n, []types.UID{pod.UID}, n.left())
	})
}
