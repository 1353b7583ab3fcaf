// SPDX-License-Identifier: Apache-2.0

package imagestore_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	goruntime "runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/keelson-dev/keelson/runtime/process/imagestore"
)

func Example() {
	root, err := os.MkdirTemp("", "images")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	store, err := imagestore.New(imagestore.Options{Root: root}) // without a registry
	if err != nil {
		fmt.Println(err)
		return
	}
	img, err := hello()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	id, err := store.Add(ctx, img, "registry.example/hello:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := store.ImageID(ctx, "registry.example/hello:1")
	fmt.Println(found == id, err)
	listed, err := store.ListImages(ctx)
	fmt.Println(listed[0].RepoTags, listed[0].Size, "bytes", err)
	fmt.Println(store.RemoveImage(ctx, id))
	// Output:
	// true <nil>
	// [registry.example/hello:1] 5 bytes <nil>
	// <nil>
}

// hello makes an image with a single file.
func hello() (v1.Image, error) {
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	if err := w.WriteHeader(&tar.Header{Name: "greeting", Typeflag: tar.TypeReg, Mode: 0o644, Size: 5, Uid: os.Getuid(), Gid: os.Getgid()}); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, "hello"); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file.OS, file.Architecture = "linux", goruntime.GOARCH
	return mutate.ConfigFile(img, file)
}
