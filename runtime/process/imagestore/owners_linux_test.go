// SPDX-License-Identifier: Apache-2.0

package imagestore_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	goruntime "runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/imagestore"
)

// TestOwners: an agent that is not root reports the owners of files, of few files only, and has all files itself.
func TestOwners(t *testing.T) {
	dir, here := nobody(t)
	if !here {
		return
	}
	store, err := imagestore.New(imagestore.Options{Root: dir + "/owners"})
	require.NoError(t, err)
	owners := func(layers ...[]tar.Header) []process.Owner {
		img := v1.Image(empty.Image)
		for _, headers := range layers {
			var raw bytes.Buffer
			w := tar.NewWriter(&raw)
			for _, h := range headers {
				if h.Mode = 0o644; h.Typeflag == tar.TypeDir {
					h.Mode = 0o755
				}
				require.NoError(t, w.WriteHeader(&h))
				_, err := w.Write(make([]byte, h.Size))
				require.NoError(t, err)
			}
			require.NoError(t, w.Close())
			layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil }, tarball.WithCompressionLevel(gzip.NoCompression))
			require.NoError(t, err)
			img, err = mutate.AppendLayers(img, layer)
			require.NoError(t, err)
		}
		file, err := img.ConfigFile()
		require.NoError(t, err)
		file.OS, file.Architecture = "linux", goruntime.GOARCH
		img, err = mutate.ConfigFile(img, file)
		require.NoError(t, err)
		id, err := store.Add(t.Context(), img)
		require.NoError(t, err)
		files, err := store.RootFS(t.Context(), id)
		require.NoError(t, err)
		return files.Owners
	}
	srv := tar.Header{Name: "srv/", Typeflag: tar.TypeDir, Uid: 33, Gid: 44}
	assert.Equal(t, []process.Owner{{Path: "srv", UID: 33, GID: 44}, {Path: "srv/b", GID: 7}, {Path: "srv/c", UID: 5, GID: 5}}, owners([]tar.Header{
		srv,
		{Name: "etc/root", Typeflag: tar.TypeReg},
		{Name: "srv/a", Typeflag: tar.TypeReg, Uid: 33},
		{Name: "srv/b", Typeflag: tar.TypeReg, Gid: 7, Size: 3},
		{Name: "srv/link", Typeflag: tar.TypeSymlink, Linkname: "b", Uid: 33},
		{Name: "srv/root", Typeflag: tar.TypeReg},
	}, []tar.Header{
		{Name: "srv/a", Typeflag: tar.TypeReg},
		{Name: "srv/c", Typeflag: tar.TypeReg, Uid: 5, Gid: 5},
	}))
	many := []tar.Header{srv}
	for i := range 999 {
		many = append(many, tar.Header{Name: fmt.Sprintf("srv/%d", i), Typeflag: tar.TypeReg, Uid: 1})
	}
	assert.Len(t, owners(many), 1000)
	assert.Empty(t, owners(append(many, tar.Header{Name: "srv/more", Typeflag: tar.TypeReg, Uid: 1})))
	assert.Empty(t, owners([]tar.Header{srv, {Name: "srv/big", Typeflag: tar.TypeReg, Uid: 1, Size: 64<<20 + 1}}))
	assert.Len(t, owners([]tar.Header{srv, {Name: "srv/big", Typeflag: tar.TypeReg, Size: 64<<20 + 1}}), 1)
}
