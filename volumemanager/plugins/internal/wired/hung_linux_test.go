// SPDX-License-Identifier: Apache-2.0

package wired_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/mounttest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// patience limits operations that end at once unless they hang.
const patience = 30 * time.Second

// hang mounts a file system whose server never answers: every access blocks. release ends the
// blocking and the mount.
func hang(t *testing.T, dir string) (release func()) {
	t.Helper()
	mounttest.Need(t)
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	err = unix.Mount("hung", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server))
	if err != nil {
		_ = unix.Close(server)
		t.Skipf("no FUSE here: %v", err)
	}
	released := false
	release = func() {
		if !released {
			released = true
			assert.NoError(t, unix.Close(server)) // blocked calls get an error
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				assert.ErrorIs(t, err, unix.EINVAL, "it is unmounted by somebody else, or now")
			}
		}
	}
	t.Cleanup(release)
	return release
}

// soon fails the test if f does not return.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		require.Fail(t, "hangs", what)
	}
}

// Issues 123960, 72048, 31272: an agent that starts on a node with a volume on a hung server hangs
// too, or its cleanup does. Here only the operation on a volume accesses its mount. The test uses a
// file system that really hangs.
func TestUpstream123960HungFileSystemHoldsUpItsPodOnly(t *testing.T) {
	root := mounttest.Dir(t)
	volume := filepath.Join(root, "pods/old/volumes/kubernetes.io~empty-dir/v0")
	require.NoError(t, os.MkdirAll(volume, 0o750))
	release := hang(t, volume)

	n := newNode(t, root)
	p := pod("new", append(emptyDirs, configMap)...)
	soon(t, "a mount", func() { n.up(t, p) })
	require.True(t, n.manager.ReconcilerStatesHasBeenSynced())
	assert.True(t, n.manager.HasPossiblyMountedVolumesForPod("old"), "it was found, by its name alone")
	n.pods.Set("old", volumetest.Gone)
	soon(t, "the unmount", func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := n.manager.WaitForUnmount(ctx, "old")
		assert.ErrorContains(t, err, "kubernetes.io/empty-dir/old-v0")
		assert.ErrorContains(t, err, "something else is mounted there", "the mount table tells, and is all that is asked")
	})
	soon(t, "the clean-up", func() {
		_ = n.manager.CleanupOrphan("old")
	})
	soon(t, "a refresh", func() {
		n.set("second")
		n.up(t, p)
	})
	soon(t, "another unmount", func() { n.down(t, "new") })
	release()
	soon(t, "the end", func() {
		n.pods.Set("old", volumetest.Gone)
		assert.NoError(t, n.manager.WaitForUnmount(t.Context(), "old"))
	})
	assert.NoDirExists(t, volume)
}

// PR 110670: a pod is deleted while the agent is down. The next agent unmounts the pod's volumes.
// The volume of a live pod stays, although it cannot be set up again. The test uses real mounts.
func TestUpstream110670PodDeletedWhileTheAgentWasAway(t *testing.T) {
	mounttest.Need(t)
	root := mounttest.Dir(t)
	memory := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	n := newNode(t, root)
	n.up(t, pod("gone", memory, aSecret))
	n.up(t, pod("stays", memory, aSecret))
	require.Len(t, mounttest.Below(t, root), 4)
	data := filepath.Join(n.manager.GetMountedVolumesForPod("stays")["v0"].Path, "data")
	require.NoError(t, os.WriteFile(data, []byte("precious"), 0o600))
	n.stop()

	n = newNode(t, root)
	n.pods.Set("gone", volumetest.Gone)
	require.NoError(t, n.manager.WaitForUnmount(t.Context(), "gone"))
	require.Len(t, mounttest.Below(t, root), 2)
	n.store.Delete(objects.Ref{Kind: objects.Secret, Namespace: "ns", Name: "o"})
	require.Error(t, mountFor(t, n, pod("stays", memory, aSecret)), "its secret is gone")
	require.Len(t, mounttest.Below(t, root), 2, "and its volumes are there")
	require.FileExists(t, data)
	n.down(t, "stays")
	require.Empty(t, mounttest.Below(t, root))
}

func mountFor(t *testing.T, n *node, p *v1.Pod) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	return n.manager.WaitForAttachAndMount(ctx, p)
}
