// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/process/imagestore"
	"github.com/keelson-dev/keelson/runtime/process/imagestore/registry"
)

// random is content that cannot be compressed, of 2 MiB.
func random(seed uint64) string {
	var b [2 << 20]byte
	from := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = from.Read(b[:])
	return string(b[:])
}

// layerOf returns the digest and the compressed bytes of the only layer.
func layerOf(img v1.Image) (string, []byte) {
	l := must(img.Layers())[0]
	in := must(l.Compressed())
	defer in.Close()
	return must(l.Digest()).String(), must(io.ReadAll(in))
}

// blobServer answers requests for a blob: the first with half of the blob, and the later requests by
// then. It records the ranges that were asked.
type blobServer struct {
	blob []byte
	then func(w http.ResponseWriter, r *http.Request, b *blobServer)

	mu     sync.Mutex
	ranges []string
}

// asked returns the ranges of the requests so far, and forgets them.
func (b *blobServer) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.ranges = nil }()
	return b.ranges
}

func (b *blobServer) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.ranges = append(b.ranges, r.Header.Get("Range"))
	first := len(b.ranges) == 1
	b.mu.Unlock()
	if first && b.then != nil {
		w.Header().Set("Content-Length", fmt.Sprint(len(b.blob)))
		_, _ = w.Write(b.blob[:len(b.blob)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if b.then == nil {
		honest(w, r, b)
		return
	}
	b.then(w, r, b)
}

func honest(w http.ResponseWriter, r *http.Request, b *blobServer) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.blob))
}

// partial answers with status 206, a range and a body.
func partial(w http.ResponseWriter, contentRange string, body []byte) {
	w.Header().Set("Content-Range", contentRange)
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(body)
}

// TestResume: whatever a registry answers after a cut, the image is right, or there is none and the
// next pull of an honest registry succeeds.
func TestResume(t *testing.T) {
	want := random(1)
	img := must(image(goruntime.GOARCH, want))
	digest, blob := layerOf(img)
	half := len(blob) / 2
	rest := fmt.Sprintf("bytes=%d-", half)
	right := fmt.Sprintf("bytes %d-%d/%d", half, len(blob)-1, len(blob))
	for name, tc := range map[string]struct {
		then  func(w http.ResponseWriter, r *http.Request, b *blobServer)
		asked []string // of the first pull; nil: not compared
		err   string
		again string // the range that the next pull asks
	}{
		"honours the range": {then: honest, asked: []string{"", rest}},
		"ignores the range": {
			then:  func(w http.ResponseWriter, _ *http.Request, b *blobServer) { _, _ = w.Write(b.blob) },
			asked: []string{"", rest},
		},
		"answers with a wrong range": {
			then: func(w http.ResponseWriter, r *http.Request, b *blobServer) {
				if r.Header.Get("Range") == "" {
					honest(w, r, b)
					return
				}
				partial(w, fmt.Sprintf("bytes 0-%d/%d", len(blob)-1, len(blob)), blob)
			},
			asked: []string{"", rest, ""},
		},
		"answers with a range without numbers": {
			then: func(w http.ResponseWriter, r *http.Request, b *blobServer) {
				if r.Header.Get("Range") == "" {
					honest(w, r, b)
					return
				}
				partial(w, "everything", blob)
			},
			asked: []string{"", rest, ""},
		},
		"refuses the range": {
			then: func(w http.ResponseWriter, r *http.Request, b *blobServer) {
				if r.Header.Get("Range") == "" {
					honest(w, r, b)
					return
				}
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			},
			asked: []string{"", rest, ""},
		},
		"sends more than it declared": {
			then: func(w http.ResponseWriter, _ *http.Request, _ *blobServer) {
				partial(w, right, append(bytes.Clone(blob[half:]), "more and more"...))
			},
			asked: []string{"", rest},
		},
		"truncates every answer": {
			then: func(w http.ResponseWriter, _ *http.Request, _ *blobServer) {
				partial(w, right, blob[half:half+10])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			err: "cut off after", again: fmt.Sprintf("bytes=%d-", half+10),
		},
		"ends every answer early": {
			then: func(w http.ResponseWriter, _ *http.Request, _ *blobServer) { partial(w, right, nil) },
			err:  "cut off after", again: rest,
		},
		"sends other bytes": {
			then: func(w http.ResponseWriter, _ *http.Request, _ *blobServer) {
				partial(w, right, bytes.Repeat([]byte{7}, len(blob)-half))
			},
			err: "layer", again: "",
		},
		"is gone": {
			then: func(w http.ResponseWriter, _ *http.Request, _ *blobServer) { w.WriteHeader(http.StatusNotFound) },
			err:  "404", again: rest,
		},
		"sends a part of a part each time": {
			then: func(w http.ResponseWriter, r *http.Request, _ *blobServer) {
				var from int
				_, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				if err == nil {
					partial(w, fmt.Sprintf("bytes %d-%d/%d", from, len(blob)-1, len(blob)), blob[from:min(from+300<<10, len(blob))])
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.push(t, "app:1", img)
			b := &blobServer{blob: blob, then: tc.then}
			s.guard(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, digest) || r.Method != http.MethodGet {
					return true
				}
				b.serve(w, r)
				return false
			})
			root := filepath.Join(t.TempDir(), "images")
			pull := func() error {
				source := registry.New(registry.Options{Parts: filepath.Join(root, "parts")})
				images := must(imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{source}}))
				_, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
				return err
			}
			err := pull()
			asked := b.asked()
			if tc.asked != nil {
				assert.Equal(t, tc.asked, asked)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.Empty(t, must(filepath.Glob(filepath.Join(root, "images", "*", "rootfs", "app"))))
				b.mu.Lock()
				b.then = nil
				b.mu.Unlock()
				require.NoError(t, pull(), "the next pull")
				assert.Equal(t, []string{tc.again}, b.asked())
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, want, content(t, root))
			require.Empty(t, must(os.ReadDir(filepath.Join(root, "parts"))), "nothing is left behind")
		})
	}
}

// A part of another agent, of another blob, or with bytes of a power cut costs a pull at most.
func TestPartIsNotTrusted(t *testing.T) {
	want := random(2)
	img := must(image(goruntime.GOARCH, want))
	digest, blob := layerOf(img)
	for name, tc := range map[string]struct {
		part []byte
		err  bool
	}{
		"the beginning":        {part: blob[:1000]},
		"all":                  {part: blob},
		"empty":                {part: nil},
		"longer than the blob": {part: append(bytes.Clone(blob), 1)},
		"zeros":                {part: make([]byte, 5000), err: true},
		"a wrong byte":         {part: append(bytes.Clone(blob[:100_000]), blob[100_000]+1), err: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.push(t, "app:1", img)
			root := filepath.Join(t.TempDir(), "images")
			dir := filepath.Join(root, "parts")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, strings.TrimPrefix(digest, "sha256:")+".part"), tc.part, 0o600))
			images := must(imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{registry.New(registry.Options{Parts: dir})}}))
			_, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
			if tc.err {
				require.Error(t, err)
				require.Empty(t, must(os.ReadDir(dir)))
				_, err = images.PullImage(t.Context(), s.host+"/app:1", nil)
			}
			require.NoError(t, err)
			require.Equal(t, want, content(t, root))
			require.Empty(t, must(os.ReadDir(dir)))
		})
	}
}

// The folder of parts may be unusable: then a pull keeps nothing.
func TestPartsWithoutFolder(t *testing.T) {
	s := serve(t)
	s.push(t, "app:1", must(image(goruntime.GOARCH, "1")))
	root := t.TempDir()
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	images := must(imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{registry.New(registry.Options{Parts: filepath.Join(file, "parts")})}}))
	_, err := images.PullImage(t.Context(), s.host+"/app:1", nil)
	require.NoError(t, err)
}

// Old parts, and the oldest parts beyond 1 GiB, are removed by the next pull. Other files stay.
func TestPartsAreSwept(t *testing.T) {
	s := serve(t)
	s.push(t, "app:1", must(image(goruntime.GOARCH, "1")))
	dir := filepath.Join(t.TempDir(), "parts")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, age := range map[string]time.Duration{"old.part": 25 * time.Hour, "a.part": time.Minute, "b.part": 2 * time.Minute, "c.part": 3 * time.Minute, "notes": 99 * time.Hour} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, 500<<20))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	_, _, err := registry.New(registry.Options{Parts: dir}).Image(t.Context(), must(parse(s.host+"/app:1")), v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}, nil)
	require.NoError(t, err)
	var left []string
	for _, e := range must(os.ReadDir(dir)) {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{"a.part", "b.part", "notes"}, left)
}

// memory answers requests from a handler, without a network, so that time is virtual. A body ends
// with the request's context.
type memory struct{ handler http.Handler }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	if answer.Header.Get("Stalls") != "" {
		answer.Body = io.NopCloser(io.MultiReader(answer.Body, waiting{r.Context()}))
	}
	return answer, nil
}

// waiting blocks until the end of ctx.
type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// A connection that brings no byte for a minute is cut, and the download continues.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := random(3)
		img := must(image(goruntime.GOARCH, want))
		digest, blob := layerOf(img)
		manifest, config := must(img.RawManifest()), must(img.RawConfigFile())
		stalls := 2
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.Contains(r.URL.Path, "/manifests/"):
				w.Header().Set("Content-Type", string(must(img.MediaType())))
				_, _ = w.Write(manifest)
			case strings.HasSuffix(r.URL.Path, digest) && stalls > 0:
				stalls--
				var from int
				_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				w.Header().Set("Stalls", "yes")
				if from > 0 {
					partial(w, fmt.Sprintf("bytes %d-%d/%d", from, len(blob)-1, len(blob)), blob[from:from+1000])
					return
				}
				_, _ = w.Write(blob[:1000])
			case strings.HasSuffix(r.URL.Path, digest):
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blob))
			case strings.Contains(r.URL.Path, "/blobs/"):
				_, _ = w.Write(config)
			}
		})
		root := t.TempDir()
		source := registry.New(registry.Options{Transport: memory{handler}, Parts: filepath.Join(root, "parts")})
		images := must(imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{source}}))
		began := time.Now()
		_, err := images.PullImage(t.Context(), "registry.example/app:1", nil)
		require.NoError(t, err)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		assert.Equal(t, want, content(t, root))

		stalls = 100
		require.NoError(t, os.RemoveAll(root))
		_, err = images.PullImage(t.Context(), "registry.example/app:1", nil)
		require.ErrorContains(t, err, "sent nothing for a minute")
	})
}

// The end of the pull keeps the part, and a full disk, or another failure to unpack, removes the part.
func TestPartAfterTheEnd(t *testing.T) {
	s := serve(t)
	img := must(image(goruntime.GOARCH, random(4)))
	s.push(t, "app:1", img)
	_, blob := layerOf(img)
	dir := filepath.Join(t.TempDir(), "parts")
	ctx, cancel := context.WithCancel(t.Context())
	fetched, _, err := registry.New(registry.Options{Parts: dir}).Image(ctx, must(parse(s.host+"/app:1")), v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}, nil)
	require.NoError(t, err)
	read := func() io.ReadCloser {
		in := must(must(fetched.Layers())[0].Compressed())
		_ = must(io.CopyN(io.Discard, in, int64(len(blob)/2)))
		return in
	}
	other := read()
	second := must(must(fetched.Layers())[0].Compressed()) // without a part: the other download has it
	all := must(io.ReadAll(second))
	assert.Equal(t, blob, all)
	require.NoError(t, second.Close())
	require.Len(t, must(os.ReadDir(dir)), 1)
	require.NoError(t, other.Close())
	require.Empty(t, must(os.ReadDir(dir)), "the reader gave up")

	in := read()
	cancel()
	require.NoError(t, in.Close())
	left := must(os.ReadDir(dir))
	require.Len(t, left, 1)
	assert.GreaterOrEqual(t, must(left[0].Info()).Size(), int64(len(blob)/2))
}

// BenchmarkPull pulls an image of 8 MiB that cannot be compressed, with and without parts.
func BenchmarkPull(b *testing.B) {
	img := must(image(goruntime.GOARCH, random(1)+random(2)+random(3)+random(4)))
	digest, blob := layerOf(img)
	manifest, config := must(img.RawManifest()), must(img.RawConfigFile())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", string(must(img.MediaType())))
			_, _ = w.Write(manifest)
		case strings.HasSuffix(r.URL.Path, digest):
			_, _ = w.Write(blob)
		case strings.Contains(r.URL.Path, "/blobs/"):
			_, _ = w.Write(config)
		}
	}))
	defer web.Close()
	for name, keeps := range map[string]bool{"parts": true, "none": false} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(blob)))
			b.ReportAllocs()
			for range b.N {
				root, opts := b.TempDir(), registry.Options{}
				if keeps {
					opts.Parts = filepath.Join(root, "parts")
				}
				images := must(imagestore.New(imagestore.Options{Root: root, Sources: []imagestore.Source{registry.New(opts)}}))
				if _, err := images.PullImage(b.Context(), strings.TrimPrefix(web.URL, "http://")+"/app:1", nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
