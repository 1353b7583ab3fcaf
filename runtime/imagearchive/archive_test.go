// SPDX-License-Identifier: Apache-2.0

package imagearchive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/imagearchive"
	"github.com/keelson-dev/keelson/runtime/process/imagestore"
)

var here = v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pack returns the tar file of members, by name and content.
func pack(members ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		h := &tar.Header{Name: members[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(members[i+1])), Uid: os.Getuid(), Gid: os.Getgid()}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := io.WriteString(w, members[i+1]); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// packType returns a tar file with the member x of a type.
func packType(kind byte) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "x", Typeflag: kind, Linkname: "/etc/passwd"}), w.Close()); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// image makes an image with the file "app" for a platform.
func image(arch, content string) v1.Image {
	raw := pack("app", content)
	layer := must(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }))
	img := must(mutate.AppendLayers(empty.Image, layer))
	file := must(img.ConfigFile()).DeepCopy()
	file.OS, file.Architecture = "linux", arch
	return must(mutate.ConfigFile(img, file))
}

// writeLayout writes an image layout of OCI as a folder.
func writeLayout(t testing.TB, add ...mutate.IndexAddendum) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	_, err := layout.Write(dir, mutate.AppendManifests(empty.Index, add...))
	require.NoError(t, err)
	return dir
}

// named is an image of a layout with a name.
func named(img mutate.Appendable, key, value string) mutate.IndexAddendum {
	d := *must(partial.Descriptor(img))
	d.Annotations = map[string]string{key: value}
	return mutate.IndexAddendum{Add: img, Descriptor: d}
}

const (
	fullName = "io.containerd.image.name"
	refName  = "org.opencontainers.image.ref.name"
)

// packFolder returns a folder as a tar file.
func packFolder(t testing.TB, dir string) []byte { return pack(contents(t, dir)...) }

// contents returns the names of a folder's files, with leading "./" as tar writes them, each followed
// by the content.
func contents(t testing.TB, dir string) (members []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			members = append(members, "./"+must(filepath.Rel(dir, p)), string(must(os.ReadFile(p))))
		}
		return err
	}))
	return members
}

func write(t testing.TB, file string, raw []byte) string {
	t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(t.TempDir(), file)
	}
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	return file
}

func gzipped(raw []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	must(w.Write(raw))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func zstded(raw []byte) []byte { return must(zstd.NewWriter(nil)).EncodeAll(raw, nil) }

// saved returns the tar file that "docker save" writes.
func saved(t testing.TB, img v1.Image, names ...string) []byte {
	t.Helper()
	all := map[name.Tag]v1.Image{}
	for _, n := range names {
		all[must(name.NewTag(n))] = img
	}
	file := filepath.Join(t.TempDir(), "saved.tar")
	require.NoError(t, tarball.MultiWriteToFile(file, all))
	return must(os.ReadFile(file))
}

// app returns the content of the file "app" in the only layer of an image.
func app(t testing.TB, img v1.Image) string {
	t.Helper()
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	in, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer in.Close()
	r := tar.NewReader(in)
	_, err = r.Next()
	require.NoError(t, err)
	return string(must(io.ReadAll(r)))
}

func TestOpen(t *testing.T) {
	img := image(here.Architecture, "1")
	folder := writeLayout(t, named(img, fullName, "registry.example/app:1"))
	tarred := packFolder(t, folder)
	full := []string{"registry.example/app:1"}
	digest := must(img.Digest()).String()
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image("s390x", "foreign"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: image("unknown", "attestation"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}},
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &here}},
	)
	for want, tc := range map[string]struct {
		path   string
		names  []string
		digest string
	}{
		"layout":                 {folder, full, digest},
		"layout in tar":          {write(t, "a.tar", tarred), full, digest},
		"layout in gzip":         {write(t, "a.tar.gz", gzipped(tarred)), full, digest},
		"layout in zstd":         {write(t, "a.tzst", zstded(tarred)), full, digest},
		"reference of OCI":       {writeLayout(t, named(img, refName, "app:1")), []string{"app:1"}, digest},
		"no more than a tag":     {writeLayout(t, named(img, refName, "latest")), nil, digest},
		"no name":                {writeLayout(t, mutate.IndexAddendum{Add: img}), nil, digest},
		"several platforms":      {writeLayout(t, named(index, fullName, "registry.example/app:1")), full, must(index.Digest()).String()},
		"docker save":            {write(t, "a.tar", saved(t, img, "app:1", "app:2")), []string{"app:1", "app:2"}, ""},
		"docker save compressed": {write(t, "a.tar", gzipped(saved(t, img, "app:1"))), []string{"app:1"}, ""},
		"both":                   {write(t, "a.tar", packFolder(t, both(t, img))), []string{"app:1"}, digest},
	} {
		t.Run(want, func(t *testing.T) {
			archive, err := imagearchive.Open(tc.path)
			require.NoError(t, err)
			require.Len(t, archive.Images(), 1)
			got := archive.Images()[0]
			assert.ElementsMatch(t, tc.names, got.Names)
			assert.Equal(t, tc.digest, got.Digest)
			opened, err := got.For(here)
			require.NoError(t, err)
			assert.Equal(t, "1", app(t, opened))
			assert.Equal(t, must(img.ConfigName()), must(opened.ConfigName()))
		})
	}
}

// both is a layout with the manifest.json of "docker save" beside.
func both(t testing.TB, img v1.Image) string {
	dir := writeLayout(t, named(img, refName, "1"))
	layer := must(must(img.Layers())[0].Digest()).Hex
	manifest := must(json.Marshal([]map[string]any{{
		"Config": "blobs/sha256/" + must(img.ConfigName()).Hex, "RepoTags": []string{"app:1"}, "Layers": []string{"blobs/sha256/" + layer},
	}}))
	write(t, filepath.Join(dir, "manifest.json"), manifest)
	return dir
}

func TestOpenRefuses(t *testing.T) {
	img := image(here.Architecture, "1")
	broken := writeLayout(t, named(img, fullName, "app:1"))
	write(t, filepath.Join(broken, "blobs/sha256", must(img.Digest()).Hex), []byte("{}"))
	linked := writeLayout(t, named(img, fullName, "app:1"))
	require.NoError(t, os.Rename(filepath.Join(linked, "index.json"), filepath.Join(linked, "other")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(linked, "index.json")))
	many := make([]string, 0, 20_002)
	for i := range 10_001 {
		many = append(many, fmt.Sprint(i), "")
	}
	for name, tc := range map[string]struct{ path, err string }{
		"no file":            {filepath.Join(t.TempDir(), "missing.tar"), "no such file"},
		"not an archive":     {write(t, "a", []byte(strings.Repeat("text", 500))), "invalid tar header"},
		"an empty archive":   {write(t, "a", pack()), "neither index.json nor manifest.json"},
		"a path with ..":     {write(t, "a", pack("../index.json", "{}")), `"../index.json" is outside of the archive`},
		"an absolute path":   {write(t, "a", pack("/index.json", "{}")), `"/index.json" is outside of the archive`},
		"a path twice":       {write(t, "a", pack("index.json", "{}", "./index.json", "{}")), "comes twice"},
		"a link in tar":      {write(t, "a", packType(tar.TypeSymlink)), `"x" is no regular file`},
		"a device in tar":    {write(t, "a", packType(tar.TypeChar)), `"x" is no regular file`},
		"a link":             {linked, "index.json is not a regular file"},
		"a big document":     {write(t, "a", pack("index.json", strings.Repeat(" ", 8<<20+1))), "more than 8388608 bytes"},
		"no JSON":            {write(t, "a", pack("index.json", "{")), "index.json"},
		"no configuration":   {write(t, "a", pack("manifest.json", "[{}]")), "image 0 has no configuration"},
		"half an archive":    {write(t, "a", saved(t, img, "app:1")[:1500]), "unexpected EOF"},
		"a truncated stream": {write(t, "a", gzipped(saved(t, img, "app:1"))[:100]), "unexpected EOF"},
		"a million members":  {write(t, "a", pack(many...)), "more than 10000 members"},
		"a device":           {os.DevNull, "neither a folder nor a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := imagearchive.Open(tc.path)
			require.ErrorContains(t, err, tc.err)
			require.ErrorContains(t, err, tc.path)
		})
	}

	archive, err := imagearchive.Open(broken)
	require.NoError(t, err)
	_, err = archive.Images()[0].For(here)
	require.ErrorContains(t, err, "has the digest sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")

	foreign := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image("s390x", "a"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: image("ppc64le", "b"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "ppc64le"}}})
	archive, err = imagearchive.Open(writeLayout(t, named(foreign, fullName, "app:1")))
	require.NoError(t, err)
	_, err = archive.Images()[0].For(here)
	require.ErrorContains(t, err, "is not for linux/"+here.Architecture)
}

// An artifact beside the images of a layout is left out.
func TestArtifactIsLeftOut(t *testing.T) {
	img := image(here.Architecture, "1")
	dir := writeLayout(t, named(img, fullName, "app:1"))
	var index v1.IndexManifest
	require.NoError(t, json.Unmarshal(must(os.ReadFile(filepath.Join(dir, "index.json"))), &index))
	other := static.NewLayer([]byte("sbom"), types.MediaType("application/spdx+json"))
	index.Manifests = append([]v1.Descriptor{*must(partial.Descriptor(other))}, index.Manifests...)
	write(t, filepath.Join(dir, "index.json"), must(json.Marshal(index)))
	archive, err := imagearchive.Open(dir)
	require.NoError(t, err)
	require.Len(t, archive.Images(), 1)
	assert.Equal(t, []string{"app:1"}, archive.Images()[0].Names)
}

// The store unpacks an image of a folder of archives when it is pulled, also after the archive was
// replaced, and keeps the image after the archive was removed.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archives")
	folder, err := imagearchive.NewFolder(dir)
	require.NoError(t, err)
	store, err := imagestore.New(imagestore.Options{Root: filepath.Join(t.TempDir(), "images"), Sources: []imagestore.Source{folder}})
	require.NoError(t, err)
	ctx := t.Context()
	_, err = store.PullImage(ctx, "app:1", nil)
	require.ErrorIs(t, err, runtime.ErrNotFound, "before the folder is there")

	require.NoError(t, os.Mkdir(dir, 0o700))
	one, two := image(here.Architecture, "1"), image(here.Architecture, "22")
	write(t, filepath.Join(dir, "a.tar"), saved(t, one, "app:1"))
	write(t, filepath.Join(dir, "b.tar.part"), saved(t, two, "app:1"))
	write(t, filepath.Join(dir, ".hidden"), saved(t, two, "app:1"))
	write(t, filepath.Join(dir, "notes.txt"), []byte("no archive"))
	first, err := store.PullImage(ctx, "docker.io/library/app:1", nil)
	require.NoError(t, err)
	assert.Equal(t, must(one.ConfigName()).String(), first)
	_, err = store.PullImage(ctx, "other:1", nil)
	require.ErrorIs(t, err, runtime.ErrNotFound)
	assert.ErrorContains(t, err, "notes.txt", "the unreadable archives are named")

	write(t, filepath.Join(dir, "a.tar"), packFolder(t, writeLayout(t, named(two, fullName, "docker.io/library/app:1"))))
	second, err := store.PullImage(ctx, "app:1", nil)
	require.NoError(t, err)
	assert.Equal(t, must(two.ConfigName()).String(), second)
	byDigest, err := store.ImageID(ctx, "app@"+must(two.Digest()).String())
	require.NoError(t, err)
	assert.Equal(t, second, byDigest)

	require.NoError(t, os.RemoveAll(dir))
	again, err := store.PullImage(ctx, "app:1", nil)
	require.NoError(t, err)
	assert.Equal(t, second, again)

	_, err = imagearchive.NewFolder("archives")
	require.ErrorContains(t, err, "not absolute")
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "a.tar"), nil)
	_, _, err = folder.Image(stopped, must(name.ParseReference("app:1")), here, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// FuzzOpen: whatever is in a file, it is an archive with readable names, or an error.
func FuzzOpen(f *testing.F) {
	img := image(here.Architecture, "1")
	f.Add(saved(f, img, "app:1"))
	f.Add(packFolder(f, writeLayout(f, named(img, fullName, "app:1"))))
	f.Add(gzipped(pack("index.json", `{"manifests":[{}]}`)))
	f.Add(pack("manifest.json", `[{"Config":"c","Layers":["l"]}]`, "c", `{"rootfs":{"diff_ids":["sha256:00"]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		archive, err := imagearchive.Open(write(t, "a.tar", raw))
		if err != nil {
			return
		}
		for _, i := range slices.Clone(archive.Images()) {
			img, err := i.For(here)
			if err != nil {
				continue
			}
			layers, err := img.Layers()
			if err != nil {
				continue
			}
			for _, l := range layers {
				if in, err := l.Uncompressed(); err == nil {
					_, _ = io.Copy(io.Discard, io.LimitReader(in, 1<<20))
					require.NoError(t, in.Close())
				}
			}
		}
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "archives")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	tag := must(name.NewTag("registry.example/app:1"))
	if err := tarball.WriteToFile(filepath.Join(dir, "app.tar"), tag, image(goruntime.GOARCH, "hello")); err != nil {
		fmt.Println(err)
		return
	}

	archive, err := imagearchive.Open(filepath.Join(dir, "app.tar"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, image := range archive.Images() {
		fmt.Println(image.Names)
	}
	// Output: [registry.example/app:1]
}
