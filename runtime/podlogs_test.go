// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runtime_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/tree/treetest"
	"github.com/keelson-dev/keelson/runtime"
)

func TestRemovePodLogs(t *testing.T) {
	logs := t.TempDir()
	require.NoError(t, runtime.RemovePodLogs(filepath.Join(logs, "none"), "", "", "u"))
	uids, err := runtime.PodsWithLogs(filepath.Join(logs, "none"))
	require.NoError(t, err)
	assert.Empty(t, uids)

	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, dir := range []string{
		"default_pod_u/main", "other_pod_u", // a pod's name or namespace may have changed under its UID
		"default_pod_a_u", // of the pod "a_u"
		"default_pod_v", "lost+found",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(logs, dir), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(logs, "default_file_u"), nil, 0o600))
	require.NoError(t, os.Mkdir(elsewhere, 0o700))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(logs, "default_pod_u", "link")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(logs, "default_link_u")))

	uids, err = runtime.PodsWithLogs(logs)
	require.NoError(t, err)
	assert.ElementsMatch(t, []types.UID{"u", "u", "a_u", "v"}, uids)
	require.NoError(t, runtime.RemovePodLogs(logs, "default", "link", "u"))
	require.NoError(t, runtime.RemovePodLogs(logs, "default", "none", "u"))
	require.NoError(t, runtime.RemovePodLogs(logs, "other", "pod", "u"))
	assert.Equal(t, []string{"default_file_u", "default_link_u", "default_pod_a_u", "default_pod_u", "default_pod_v", "lost+found"}, names(t, logs),
		"of a known name")
	require.NoError(t, runtime.RemovePodLogs(logs, "", "", "u"))
	assert.Equal(t, []string{"default_file_u", "default_link_u", "default_pod_a_u", "default_pod_v", "lost+found"}, names(t, logs))
	assert.DirExists(t, elsewhere)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A container with write access to its log folder can nest folders deeper than the number of file
// descriptors.
func TestRemovePodLogsWithFewDescriptors(t *testing.T) {
	logs := t.TempDir()
	for _, levels := range treetest.Depths {
		dir := filepath.Join(logs, "default_pod_u", "main")
		require.NoError(t, os.MkdirAll(dir, 0o700))
		treetest.Deep(t, dir, levels)
		restore := treetest.Scarce(t, 40)
		err := runtime.RemovePodLogs(logs, "", "", "u")
		restore()
		require.NoError(t, err, "%d levels", levels)
		assert.Empty(t, names(t, logs))
	}
}

// Every call closes its files.
func TestFoldersOfLogsAreClosed(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		pod := newPod()
		n.mustSync(pod)
		n.policy.LinkDir = n.logs
		g, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: n.logs})
		require.NoError(n, err)
		defer treetest.Scarce(t, 40)()
		for name, call := range map[string]func() error{
			"RemoveLogs":     func() error { return g.RemoveLogs(pod, "c", 7) },
			"RemovePodLogs":  func() error { return runtime.RemovePodLogs(n.logs, "", "", "another") },
			"PodsWithLogs":   func() error { _, err := runtime.PodsWithLogs(n.logs); return err },
			"GarbageCollect": n.collect,
		} {
			for range 50 {
				require.NoError(n, call(), name)
			}
		}
	})
}
