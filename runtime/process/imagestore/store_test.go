// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcrtar "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

// source counts the reads of layers, and may break the stream.
type source struct {
	reads atomic.Int32
	after int64 // a read fails after so many bytes; 0: never
	wait  chan struct{}
}

var errCut = errors.New("the connection is lost")

func (s *source) open(raw []byte) (io.ReadCloser, error) {
	s.reads.Add(1)
	if s.wait != nil {
		<-s.wait
	}
	var in io.Reader = bytes.NewReader(raw)
	if s.after > 0 {
		in = io.MultiReader(io.LimitReader(in, s.after), broken{})
	}
	return io.NopCloser(in), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errCut }

// image makes an image of uncompressed layers for this platform.
func image(t testing.TB, config v1.Config, layers ...[]byte) v1.Image {
	return imageFrom(t, &source{}, config, layers...)
}

func imageFrom(t testing.TB, from *source, config v1.Config, layers ...[]byte) v1.Image {
	t.Helper()
	img := empty.Image
	for _, raw := range layers {
		// The digests are those of the whole stream, however the reads of the test end.
		whole, err := ggcrtar.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
		require.NoError(t, err)
		img, err = mutate.AppendLayers(img, sourced{whole, from, raw})
		require.NoError(t, err)
	}
	here := platform()
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: here.OS, Architecture: here.Architecture, Config: config, RootFS: must(img.ConfigFile()).RootFS,
	})
	require.NoError(t, err)
	return img
}

// sourced is a layer that is read from a source.
type sourced struct {
	v1.Layer
	from *source
	raw  []byte
}

func (s sourced) Compressed() (io.ReadCloser, error) { return s.from.open(s.raw) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// images is a Source in memory.
type images map[string]v1.Image

func (i images) Image(_ context.Context, ref name.Reference, _ v1.Platform, _ *runtime.ImageAuth) (v1.Image, string, error) {
	img := i[ref.Name()]
	if img == nil {
		return nil, "", fmt.Errorf("image %s: %w", ref.Name(), runtime.ErrNotFound)
	}
	digest, err := img.Digest()
	return img, digest.String(), err
}

func newStore(t testing.TB, opts Options) *Store {
	t.Helper()
	if opts.Root == "" {
		opts.Root = filepath.Join(t.TempDir(), "images")
	}
	s, err := New(opts)
	require.NoError(t, err)
	return s
}

func TestStore(t *testing.T) {
	base := tarball(t, folder("etc"), file("etc/passwd", "root:x:0:0::/root:/bin/sh\nweb:x:33:44::/srv:/bin/sh\n"), file("bin/sh", "shell"))
	app := image(t, v1.Config{User: "web", Entrypoint: []string{"/app"}, Env: []string{"A=b"}, WorkingDir: "/srv"}, base, tarball(t, file("app", "1")))
	other := image(t, v1.Config{}, base, tarball(t, file("other", "2")))
	registry := images{"registry.example/app:1": app, "registry.example/app:2": other}
	s := newStore(t, Options{Sources: []Source{registry}})
	ctx := t.Context()

	id, err := s.ImageID(ctx, "registry.example/app:1")
	require.NoError(t, err)
	require.Empty(t, id, "before the pull")
	first, err := s.PullImage(ctx, "registry.example/app:1", nil)
	require.NoError(t, err)
	second, err := s.PullImage(ctx, "registry.example/app:2", nil)
	require.NoError(t, err)
	for _, ref := range []string{"registry.example/app:1", "registry.example/app@" + must(app.Digest()).String(), "registry.example/app:9@" + must(app.Digest()).String()} {
		id, err := s.ImageID(ctx, ref)
		require.NoError(t, err)
		require.Equal(t, first, id, ref)
	}
	listed, err := s.ListImages(ctx)
	require.NoError(t, err)
	assert.ElementsMatch(t, []Image{
		{ID: first, RepoTags: []string{"registry.example/app:1"}, RepoDigests: []string{"registry.example/app@" + must(app.Digest()).String()}, Size: 58},
		{ID: second, RepoTags: []string{"registry.example/app:2"}, RepoDigests: []string{"registry.example/app@" + must(other.Digest()).String()}, Size: 58},
	}, listed)
	shell := func(id string) os.FileInfo {
		info, err := os.Stat(filepath.Join(s.root, imagesName, strings.TrimPrefix(id, "sha256:"), rootfsName, "bin/sh"))
		require.NoError(t, err)
		return info
	}
	assert.True(t, os.SameFile(shell(first), shell(second)), "equal layers share files")

	require.NoError(t, s.RemoveImage(ctx, first))
	require.NoError(t, s.RemoveImage(ctx, first), "an absent image is no error")
	id, err = s.ImageID(ctx, "registry.example/app:1")
	require.NoError(t, err)
	assert.Empty(t, id)
	assert.Len(t, must(os.ReadDir(filepath.Join(s.root, layersName))), 2, "of the image that stays")
	shell(second)
	require.NoError(t, s.RemoveImage(ctx, second))
	for _, sub := range []string{layersName, imagesName, namesName} {
		assert.Empty(t, must(os.ReadDir(filepath.Join(s.root, sub))), sub)
	}
}

// A name that moves to another image is never without an image.
func TestNamesMove(t *testing.T) {
	one := image(t, v1.Config{}, tarball(t, file("a", "1")))
	two := image(t, v1.Config{}, tarball(t, file("a", "2")))
	s := newStore(t, Options{})
	ctx := t.Context()
	first, err := s.Add(ctx, one, "app:1", "docker.io/library/app:stable")
	require.NoError(t, err)
	second, err := s.Add(ctx, two, "index.docker.io/library/app:stable")
	require.NoError(t, err)
	for ref, want := range map[string]string{"app:1": first, "docker.io/library/app:1": first, "app:stable": second, "docker.io/app:stable": second} {
		id, err := s.ImageID(ctx, ref)
		require.NoError(t, err)
		assert.Equal(t, want, id, ref)
	}
	listed, err := s.ListImages(ctx)
	require.NoError(t, err)
	assert.ElementsMatch(t, []Image{{ID: first, RepoTags: []string{"docker.io/library/app:1"}, Size: 1}, {ID: second, RepoTags: []string{"docker.io/library/app:stable"}, Size: 1}}, listed)
	_, err = s.PullImage(ctx, "app:other", nil)
	require.ErrorIs(t, err, runtime.ErrNotFound)
	id, err := s.PullImage(ctx, "app:stable", nil)
	require.NoError(t, err, "pull policy Always without a source")
	assert.Equal(t, second, id)
}

// Concurrent pulls of an image, and of images with equal layers, read each layer once.
func TestConcurrentPulls(t *testing.T) {
	from := &source{wait: make(chan struct{})}
	base := tarball(t, file("base", "1"))
	app := imageFrom(t, from, v1.Config{User: "1"}, base)
	other := imageFrom(t, from, v1.Config{User: "2"}, base, tarball(t, file("more", "2")))
	s := newStore(t, Options{Sources: []Source{images{"registry.example/app:1": app}, images{"registry.example/other:1": other}}})
	var wg sync.WaitGroup
	for _, ref := range []string{"registry.example/app:1", "registry.example/app:1", "registry.example/app:1", "registry.example/other:1"} {
		wg.Go(func() {
			_, err := s.PullImage(t.Context(), ref, nil)
			assert.NoError(t, err)
		})
	}
	close(from.wait)
	wg.Wait()
	assert.EqualValues(t, 2, from.reads.Load())
}

// An interrupted pull leaves no image, no name and no draft, and the next pull goes on behind the
// complete layers.
func TestInterruptedPull(t *testing.T) {
	good, bad := &source{}, &source{after: 700}
	layers := [][]byte{tarball(t, file("a", "1")), tarball(t, file("b", strings.Repeat("2", 1000)))}
	img := imageFrom(t, good, v1.Config{}, layers...)
	registry := images{"registry.example/app:1": interrupted{img, bad, layers}}
	s := newStore(t, Options{Sources: []Source{registry}})
	_, err := s.PullImage(t.Context(), "registry.example/app:1", nil)
	require.ErrorIs(t, err, errCut)
	listed, err := s.ListImages(t.Context())
	require.NoError(t, err)
	assert.Empty(t, listed)
	assert.Empty(t, must(os.ReadDir(filepath.Join(s.root, namesName))))
	assert.Len(t, must(os.ReadDir(filepath.Join(s.root, layersName))), 1, "the complete layer")

	registry["registry.example/app:1"] = img
	_, err = s.PullImage(t.Context(), "registry.example/app:1", nil)
	require.NoError(t, err)
	assert.EqualValues(t, 1, good.reads.Load(), "only the second layer")
}

// interrupted is an image whose second layer ends too early.
type interrupted struct {
	v1.Image
	bad    *source
	layers [][]byte
}

func (i interrupted) Layers() ([]v1.Layer, error) {
	layers, err := i.Image.Layers()
	if err == nil {
		layers[0] = sourced{layers[0], &source{}, i.layers[0]}
		layers[1] = sourced{layers[1], i.bad, i.layers[1]}
	}
	return layers, err
}

// What a killed agent left half made is removed by the next agent, and what an agent makes now is
// not.
func TestDraftsOfKilledAgents(t *testing.T) {
	s := newStore(t, Options{})
	d, err := s.open()
	require.NoError(t, err)
	defer d.close()
	live, err := newDraft(d.layers)
	require.NoError(t, err)
	dead, err := newDraft(d.layers)
	require.NoError(t, err)
	require.NoError(t, dead.lock.Close()) // as the kernel does for a killed process
	old := filepath.Join(s.root, layersName, strings.Repeat("0", 64))
	young := filepath.Join(s.root, layersName, strings.Repeat("1", 64))
	for _, dir := range []string{old, young} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	yesterday := time.Now().Add(-orphanAge - time.Hour)
	require.NoError(t, os.Chtimes(old, yesterday, yesterday))

	_, err = newStore(t, Options{Root: s.root}).ListImages(t.Context())
	require.NoError(t, err)
	assert.DirExists(t, filepath.Join(s.root, layersName, live.name))
	assert.NoDirExists(t, filepath.Join(s.root, layersName, dead.name))
	assert.NoDirExists(t, old)
	assert.DirExists(t, young)
	require.NoError(t, live.discard())
}

func TestAddRefuses(t *testing.T) {
	raw := tarball(t, file("a", "1"))
	good := image(t, v1.Config{}, raw)
	wrong := func(change func(*v1.ConfigFile)) v1.Image {
		file := must(good.ConfigFile()).DeepCopy()
		change(file)
		return must(mutate.ConfigFile(good, file))
	}
	for name, tc := range map[string]struct {
		img  v1.Image
		name string
		err  string
	}{
		"another platform":           {wrong(func(f *v1.ConfigFile) { f.Architecture = "s390x" }), "a:1", `is for "linux" on "s390x"`},
		"an artifact":                {wrong(func(f *v1.ConfigFile) { f.OS = "" }), "a:1", `is for "" on`},
		"layers without a digest":    {wrong(func(f *v1.ConfigFile) { f.RootFS.DiffIDs = nil }), "a:1", "has 0 layers, and the manifest 1"},
		"another layer":              {wrong(func(f *v1.ConfigFile) { f.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64) }), "a:1", "its content has the digest " + digestOf(raw)},
		"a digest that is a path":    {wrong(func(f *v1.ConfigFile) { f.RootFS.DiffIDs[0] = v1.Hash{Algorithm: "sha256", Hex: "../../x"} }), "a:1", "configuration"},
		"another configuration":      {forged{good}, "a:1", "and not sha256:"},
		"a big configuration":        {bigConfig{good}, "a:1", "more than 8388608"},
		"a name that is no name":     {good, "A:1:2", "could not parse reference"},
		"a layer that is no archive": {image(t, v1.Config{}, []byte(strings.Repeat("no tar", 200))), "a:1", "invalid tar header"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Options{})
			_, err := s.Add(t.Context(), tc.img, tc.name)
			require.ErrorContains(t, err, tc.err)
			listed, err := s.ListImages(t.Context())
			require.NoError(t, err)
			assert.Empty(t, listed)
		})
	}
}

// forged has another configuration than its manifest says.
type forged struct{ v1.Image }

func (f forged) RawConfigFile() ([]byte, error) {
	raw, err := f.Image.RawConfigFile()
	return append(raw, ' '), err
}

// bigConfig has a configuration of a gigabyte, which is never read.
type bigConfig struct{ v1.Image }

func (b bigConfig) Manifest() (*v1.Manifest, error) {
	m, err := b.Image.Manifest()
	if err == nil {
		m = m.DeepCopy()
		m.Config.Size = 1 << 30
	}
	return m, err
}

func (b bigConfig) RawConfigFile() ([]byte, error) { panic("read") }

// A broken record, after a fault of the disk, is as good as no image.
func TestBrokenRecords(t *testing.T) {
	img := image(t, v1.Config{}, tarball(t, file("a", "1")))
	for _, broken := range []string{filepath.Join(imagesName, "*", imageFile), filepath.Join(layersName, "*", entriesFile), filepath.Join(namesName, "*")} {
		t.Run(filepath.Dir(broken), func(t *testing.T) {
			s := newStore(t, Options{})
			id, err := s.Add(t.Context(), img, "app:1")
			require.NoError(t, err)
			found := must(filepath.Glob(filepath.Join(s.root, broken)))
			require.Len(t, found, 1)
			require.NoError(t, os.WriteFile(found[0], []byte("{"), 0o600))
			_, err = s.ImageID(t.Context(), "app:1")
			require.NoError(t, err, "the pull policy decides")
			again, err := s.Add(t.Context(), img, "app:1")
			require.NoError(t, err)
			assert.Equal(t, id, again)
			at, err := s.ImageID(t.Context(), "app:1")
			require.NoError(t, err)
			assert.Equal(t, id, at)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for want, opts := range map[string]Options{
		"Root is required": {}, "is not absolute": {Root: "images"},
	} {
		_, err := New(opts)
		require.ErrorContains(t, err, want)
	}
}

// A pull under way shows its bytes, with layers that are there already, and an ended pull shows none.
func TestPullProgress(t *testing.T) {
	from := &source{wait: make(chan struct{})}
	base, top := tarball(t, file("base", strings.Repeat("1", 5000))), tarball(t, file("top", "2"))
	first := imageFrom(t, from, v1.Config{}, base)
	both := imageFrom(t, from, v1.Config{}, base, top)
	s := newStore(t, Options{Sources: []Source{images{"registry.example/app:1": first, "registry.example/app:2": both}}})
	of := func(ref string) runtime.PullProgress { return s.PullProgress(t.Context(), "registry.example/"+ref) }
	sizes := func(img v1.Image) (sum int64) {
		for _, l := range must(img.Layers()) {
			sum += must(l.Size())
		}
		return sum
	}
	require.Zero(t, of("app:1"))
	close(from.wait)
	id, err := s.PullImage(t.Context(), "registry.example/app:1", nil)
	require.NoError(t, err)
	assert.EqualValues(t, 5000, must(s.ImageSize(t.Context(), id)))
	_, err = s.ImageSize(t.Context(), "sha256:"+strings.Repeat("0", 64))
	require.Error(t, err)

	from.wait = make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := s.PullImage(t.Context(), "registry.example/app:2", nil)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return of("app:2") == runtime.PullProgress{Bytes: sizes(first), Total: sizes(both)}
	}, 10*time.Second, time.Millisecond, "the base is there")
	close(from.wait)
	require.NoError(t, <-ended)
	require.Zero(t, of("app:2"))
	require.Zero(t, of("UPPER"))
}
