// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime/process/imagestore"
	"github.com/keelson-dev/keelson/runtime/process/imagestore/registry"
)

// files returns the regular files below a folder.
func files(t *testing.T, dir string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// A layer that does not fit on the disk is an error, and leaves neither an image nor a file. A layer
// that fits only without its part is unpacked without.
func TestFullDisk(t *testing.T) {
	s := serve(t)
	small := random(5) // 2 MiB
	s.push(t, "small:1", must(image(goruntime.GOARCH, small)))
	s.push(t, "big:1", must(image(goruntime.GOARCH, small+random(6)+random(7)+random(8))))
	pull := func(mib int, ref string) (root string, err error) {
		root = filepath.Join(containerdtest.MountDisk(t, mib), "images")
		images := must(imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{
			registry.New(registry.Options{Parts: filepath.Join(root, "parts")}),
		}}))
		_, err = images.PullImage(t.Context(), s.host+"/"+ref, nil)
		if err == nil {
			return root, nil
		}
		_, again := images.PullImage(t.Context(), s.host+"/small:1", nil)
		require.NoError(t, again, "a small image has room")
		require.Equal(t, small, content(t, root))
		require.NoError(t, images.RemoveImage(t.Context(), must(images.ImageID(t.Context(), s.host+"/small:1"))))
		return root, err
	}
	root, err := pull(6, "big:1")
	require.ErrorIs(t, err, unix.ENOSPC)
	assert.ErrorContains(t, err, `path "app"`)
	assert.Empty(t, files(t, root))

	root, err = pull(14, "big:1")
	require.NoError(t, err)
	assert.Len(t, content(t, root), 8<<20)
	assert.Empty(t, must(os.ReadDir(filepath.Join(root, "parts"))))
}
