// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/imagestore"
	"github.com/keelson-dev/keelson/runtime/process/imagestore/registry"
)

// image makes an image with a file for a platform.
func image(arch, content string) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	h := &tar.Header{Name: "app", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content)), Uid: os.Getuid(), Gid: os.Getgid()}
	if err := w.WriteHeader(h); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file.OS, file.Architecture = "linux", arch
	return mutate.ConfigFile(img, file)
}

// server is a registry on the loopback, with a gate before each request.
type server struct {
	host  string
	mu    sync.Mutex
	gate  func(http.ResponseWriter, *http.Request) bool
	blobs atomic.Int32 // requests for blobs
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{}
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/sha256:") && r.Method == http.MethodGet {
			s.blobs.Add(1)
		}
		s.mu.Lock()
		gate := s.gate
		s.mu.Unlock()
		if gate == nil || gate(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	s.host = strings.TrimPrefix(web.URL, "http://")
	return s
}

// guard sets the gate. Handlers of earlier requests may still run.
func (s *server) guard(gate func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

func (s *server) push(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	require.NoError(t, remote.Write(must(name.ParseReference(s.host+"/"+ref)), img))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func parse(ref string) (name.Reference, error) { return name.ParseReference(ref) }

func store(t *testing.T) (*imagestore.Store, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "images")
	s, err := imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{registry.New(registry.Options{})}})
	require.NoError(t, err)
	return s, root
}

// content returns the file of the only image below root.
func content(t *testing.T, root string) string {
	t.Helper()
	found := must(filepath.Glob(filepath.Join(root, "images", "*", "rootfs", "app")))
	require.Len(t, found, 1)
	return string(must(os.ReadFile(found[0])))
}

func TestPull(t *testing.T) {
	s := serve(t)
	one, two := must(image(goruntime.GOARCH, "1")), must(image(goruntime.GOARCH, "2"))
	s.push(t, "app:1", one)
	images, root := store(t)
	id, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
	require.NoError(t, err)
	assert.Equal(t, must(one.ConfigName()).String(), id)
	assert.Equal(t, "1", content(t, root))
	blobs := s.blobs.Load()

	again, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
	require.NoError(t, err)
	assert.Equal(t, id, again)
	assert.EqualValues(t, blobs+1, s.blobs.Load(), "an unchanged image costs its configuration, and no layer")

	s.push(t, "app:1", two)
	moved, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
	require.NoError(t, err)
	assert.NotEqual(t, id, moved)
	old, err := images.PullImage(t.Context(), s.host+"/app@"+must(one.Digest()).String(), nil)
	require.NoError(t, err)
	assert.Equal(t, id, old)
}

// Of an image for several platforms, the image for this platform is pulled.
func TestPullPlatform(t *testing.T) {
	s := serve(t)
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"s390x", goruntime.GOARCH, "ppc64le"} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: must(image(arch, arch)), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	require.NoError(t, remote.WriteIndex(must(name.ParseReference(s.host+"/many:1")), index))
	images, root := store(t)
	digest := s.host + "/many@" + must(index.Digest()).String()
	id, err := images.PullImage(t.Context(), digest, nil)
	require.NoError(t, err)
	assert.Equal(t, goruntime.GOARCH, content(t, root))
	found, err := images.ImageID(t.Context(), digest)
	require.NoError(t, err)
	assert.Equal(t, id, found, "by the digest of the index")

	s.push(t, "foreign:1", must(image("s390x", "x")))
	_, err = images.PullImage(t.Context(), s.host+"/foreign:1", nil)
	require.ErrorContains(t, err, `is for "linux" on "s390x"`)
}

func TestCredentials(t *testing.T) {
	s := serve(t)
	s.push(t, "app:1", must(image(goruntime.GOARCH, "1")))
	s.guard(func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "robot" && password == "hunter2" {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	})
	images, _ := store(t)
	_, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
	require.ErrorContains(t, err, "401")
	_, err = images.PullImage(t.Context(), s.host+"/app:1", &runtime.ImageAuth{Username: "robot", Password: "wrong-secret"})
	require.ErrorContains(t, err, "401")
	require.NotErrorIs(t, err, runtime.ErrRegistryUnavailable)
	assert.NotContains(t, err.Error(), "wrong-secret")
	_, err = images.PullImage(t.Context(), s.host+"/app:1", &runtime.ImageAuth{Username: "robot", Password: "hunter2"})
	require.NoError(t, err)
}

// TestHostileRegistry: whatever a registry answers, the image is the right image or there is none.
func TestHostileRegistry(t *testing.T) {
	good := must(image(goruntime.GOARCH, "good"))
	evil := must(image(goruntime.GOARCH, "evil"))
	layer := must(must(good.Layers())[0].Digest()).String()
	config := must(good.ConfigName()).String()
	evilLayer := must(must(evil.Layers())[0].Digest()).String()
	replace := func(from, to string) func(http.ResponseWriter, *http.Request) bool {
		return func(_ http.ResponseWriter, r *http.Request) bool {
			r.URL.Path = strings.Replace(r.URL.Path, from, to, 1)
			return true
		}
	}
	answer := func(part string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) {
				return true
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return false
		}
	}
	for name, tc := range map[string]struct {
		gate        func(http.ResponseWriter, *http.Request) bool
		unavailable bool
	}{
		"another manifest":        {gate: replace(must(good.Digest()).String(), must(evil.Digest()).String())},
		"another configuration":   {gate: replace(config, must(evil.ConfigName()).String())},
		"another layer":           {gate: replace(layer, evilLayer)},
		"a layer that ends early": {gate: answer(layer, http.StatusOK, "\x1f\x8b")},
		"an empty layer":          {gate: answer(layer, http.StatusOK, "")},
		"a manifest that is JSON": {gate: answer("/manifests/", http.StatusOK, "{}")},
		"no manifest":             {gate: answer("/manifests/", http.StatusNotFound, "")},
		"a page instead of /v2/":  {gate: answer("/v2/", http.StatusOK, "<html>")},
		"a redirect to itself": {gate: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return false
		}, unavailable: true},
		"out of order":             {gate: answer("/v2/", http.StatusServiceUnavailable, ""), unavailable: true},
		"too many requests":        {gate: answer("/manifests/", http.StatusTooManyRequests, ""), unavailable: true},
		"a closed connection":      {gate: func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, unavailable: true},
		"a blob store that is off": {gate: answer(layer, http.StatusBadGateway, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is the library's wait before another try
			s := serve(t)
			s.push(t, "app:1", good)
			s.push(t, "app:2", evil)
			s.guard(tc.gate)
			images, _ := store(t)
			_, err := images.PullImage(t.Context(), s.host+"/app@"+must(good.Digest()).String(), nil)
			require.Error(t, err)
			require.Equal(t, tc.unavailable, isUnavailable(err), err.Error())
			listed, err := images.ListImages(t.Context())
			require.NoError(t, err)
			require.Empty(t, listed)

			s.guard(nil)
			_, err = images.PullImage(t.Context(), s.host+"/app@"+must(good.Digest()).String(), nil)
			require.NoError(t, err, "the next pull")
		})
	}
}

func isUnavailable(err error) bool {
	return strings.HasPrefix(err.Error(), runtime.ErrRegistryUnavailable.Error())
}

// The end of the context ends a pull that waits for a layer, with the cause.
func TestPullEndsWithContext(t *testing.T) {
	s := serve(t)
	s.push(t, "app:1", must(image(goruntime.GOARCH, "1")))
	asked := make(chan struct{})
	s.guard(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return true
		}
		close(asked)
		<-r.Context().Done()
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	images, _ := store(t)
	ended := make(chan error)
	go func() {
		_, err := images.PullImage(ctx, s.host+"/app:1", nil)
		ended <- err
	}()
	<-asked
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func Example() {
	web := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	defer web.Close()
	ref := strings.TrimPrefix(web.URL, "http://") + "/app:1"
	img, err := image(goruntime.GOARCH, "hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := remote.Write(must(name.ParseReference(ref)), img); err != nil {
		fmt.Println(err)
		return
	}

	fetched, digest, err := registry.New(registry.Options{}).Image(context.Background(), must(name.ParseReference(ref)), v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	layers, err := fetched.Layers()
	fmt.Println(len(layers), "layer", strings.HasPrefix(digest, "sha256:"), err)
	// Output: 1 layer true <nil>
}
