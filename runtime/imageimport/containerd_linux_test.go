// SPDX-License-Identifier: Apache-2.0

package imageimport_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime/imagearchive"
	"github.com/keelson-dev/keelson/runtime/imageimport"
)

// An image that was exported and deleted comes back by an import, and is pinned until the unpin.
func TestContainerdImports(t *testing.T) {
	program, err := exec.LookPath("ctr")
	if err != nil {
		t.Skip("no ctr: ", err)
	}
	c := containerdtest.Start(t, containerdtest.Options{})
	path, name := filepath.Join(t.TempDir(), "busybox.tar"), containerdtest.BusyboxImage
	ctr := func(args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, append([]string{"--address", c.Socket, "--namespace", "k8s.io", "images"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	state := func() (found, pinned bool) {
		all, err := c.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
		if err != nil {
			return false, false
		}
		for _, image := range all.Images {
			if slices.Contains(image.RepoTags, name) {
				return true, image.Pinned
			}
		}
		return false, false
	}
	ctr("export", path, name)
	ctr("rm", "--sync", name)
	a, err := imagearchive.Verify(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, []string{name}, a.Names())
	// containerd 1.6, which has no events, knows no pins.
	importer := imageimport.Ctr{Socket: c.Socket, Program: program}
	require.NoError(t, importer.Import(t.Context(), a))
	require.Eventually(t, func() bool { found, pinned := state(); return found && (pinned || !c.HasEvents) }, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, importer.Unpin(t.Context(), a.Names()))
	require.Eventually(t, func() bool { found, pinned := state(); return found && !pinned }, 30*time.Second, 50*time.Millisecond)
}
