// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// hostile is a file system with paths that hang until they are released.
type hostile struct {
	system
	mu    sync.Mutex
	gates map[string]chan struct{}
	calls map[string]int // calls that have not returned
	most  map[string]int
}

func (h *hostile) hang(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gates[path] = make(chan struct{})
}

func (h *hostile) release(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.gates[path])
	delete(h.gates, path)
}

// asked returns the largest number of concurrent calls by path.
func (h *hostile) asked() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.most)
}

// pass waits until a path is released.
func (h *hostile) pass(path string) {
	h.mu.Lock()
	gate := h.gates[path]
	h.calls[path]++
	h.most[path] = max(h.most[path], h.calls[path])
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[path]--
}

func (h *hostile) list(path string, before listing) listing {
	h.pass(path)
	return h.system.list(path, before)
}

func (h *hostile) holds(path string, l listing) bool {
	h.pass(path)
	return h.system.holds(path, l)
}

func (h *hostile) look(path string, known stamp, limit int64) look {
	h.pass(path)
	return h.system.look(path, known, limit)
}

// ward is a folder on a hostile file system with a source.
type ward struct {
	*testing.T
	dir      string
	fs       *hostile
	source   *Source
	problems map[string]string // current problems by name
}

func newWard(t *testing.T, hinter Hinter, names ...string) *ward {
	w := &ward{T: t, dir: t.TempDir(), problems: map[string]string{},
		fs: &hostile{gates: map[string]chan struct{}{}, calls: map[string]int{}, most: map[string]int{}}}
	for _, name := range names {
		text := strings.Replace(anyPod, "name: a}", "name: "+name+"}", 1)
		require.NoError(t, os.WriteFile(w.path(name), []byte(text), 0o644))
	}
	var err error
	w.source, err = New(Config{Path: w.dir, Decoder: &manifest.Decoder{NodeName: "n"}, Hinter: hinter, Problem: func(path string, err error) {
		delete(w.problems, filepath.Base(path))
		if err != nil {
			w.problems[filepath.Base(path)] = err.Error()
		}
	}})
	require.NoError(t, err)
	w.source.fs = w.fs
	return w
}

func (w *ward) path(name string) string { return filepath.Join(w.dir, name) }

func (w *ward) hang(names ...string) {
	for _, name := range names {
		w.fs.hang(w.path(name))
	}
}

func (w *ward) release(names ...string) {
	for _, name := range names {
		w.fs.release(w.path(name))
	}
}

// scan returns the names of the pods.
func (w *ward) scan() []string {
	r, err := w.source.Scan(w.Context())
	require.NoError(w, err)
	return podsOf(r)
}

func podsOf(r Result) []string {
	names := []string{}
	for _, p := range r.Pods {
		names = append(names, strings.TrimSuffix(p.Name, "-n"))
	}
	return names
}

// TestFilesThatHang expects that other files load, and that each hung file is reported, called
// once, and read after its release.
func TestFilesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil, "a", "b", "c", "d", "e", "f")
		w.hang("a", "b", "d")
		r, err := w.source.Scan(t.Context())
		require.NoError(t, err)
		assert.False(t, r.Ready, "they may answer in a moment")
		assert.Equal(t, time.Now().Add(w.source.waits.folder).Sub(r.Recheck), patience+2*hurriedPatience)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"c", "e", "f"}, w.scan())
		assert.Equal(t, []string{"a", "b", "d"}, slices.Sorted(maps.Keys(w.problems)))
		assert.Contains(t, w.problems["b"], "does not answer")
		assert.Contains(t, w.problems["b"], w.path("b"))
		for range 10 {
			time.Sleep(time.Second)
			w.scan()
		}
		for path, n := range w.fs.asked() {
			assert.Equal(t, 1, n, path)
		}
		w.release("b", "d")
		synctest.Wait()
		assert.Equal(t, []string{"b", "c", "d", "e", "f"}, w.scan())
		assert.Equal(t, []string{"a"}, slices.Sorted(maps.Keys(w.problems)))

		w.hang("c")
		assert.Equal(t, []string{"b", "c", "d", "e", "f"}, w.scan(), "the last good pod stays")
		assert.Equal(t, []string{"a", "c"}, slices.Sorted(maps.Keys(w.problems)))
		w.release("a", "c")
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, w.scan())
		assert.Empty(t, w.problems)
	})
}

// TestFileThatIsSlow expects no problem if every call answers within patience.
func TestFileThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil, "a", "b", "c")
		w.hang("a", "b", "c")
		go func() {
			for _, name := range []string{"a", "b", "c"} {
				time.Sleep(patience - time.Millisecond)
				w.release(name)
			}
		}()
		assert.Equal(t, []string{"a", "b", "c"}, w.scan())
		assert.Empty(t, w.problems)
		assert.Empty(t, w.source.disk.hung)
	})
}

// TestFolderThatHangs expects no change and no further call by Glance while the folder hangs.
func TestFolderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil, "a")
		assert.Equal(t, []string{"a"}, w.scan())
		w.hang(".")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a"}, w.scan())
		assert.Contains(t, w.problems[filepath.Base(w.dir)], "does not answer")
		r, err := w.source.Glance(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, podsOf(r))
		assert.False(t, r.Changed)
		assert.Equal(t, 1, w.fs.asked()[w.path(".")])
		w.release(".")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, w.scan())
		assert.Empty(t, w.problems)
	})
}

// TestHungCallsAreBounded lets more than mostHung files hang. Further files are reported without a
// call.
func TestHungCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, mostHung+3)
		for i := range names {
			names[i] = fmt.Sprintf("p%04d", i)
		}
		w := newWard(t, nil, names...)
		w.hang(names...)
		w.scan()
		assert.Empty(t, w.scan())
		assert.Equal(t, mostHung+1, len(w.fs.asked()), "and the folder")
		assert.Contains(t, w.problems[names[mostHung]], "not read")
		assert.Equal(t, len(names), len(w.problems))
		w.release(names...)
		synctest.Wait()
		assert.Equal(t, len(names), len(w.scan()))
		assert.Empty(t, w.problems)
	})
}

// TestRunEndsWhileAllHangs expects Run to return soon after ctx ends, whichever call hangs.
func TestRunEndsWhileAllHangs(t *testing.T) {
	for _, names := range [][]string{{"."}, {"a"}, {"a", "b", "c"}, {".", "a", "watch"}, {"watch"}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *ward
				w = newWard(t, HinterFunc(func(ctx context.Context, path string) (<-chan struct{}, error) {
					w.fs.pass(w.path("watch"))
					hints := make(chan struct{})
					context.AfterFunc(ctx, func() { close(hints) })
					return hints, nil
				}), "a", "b", "c")
				w.hang(names...)
				for _, after := range []time.Duration{0, 100 * time.Millisecond, patience, 300 * time.Millisecond, 5 * time.Second, time.Minute} {
					s, err := New(Config{Path: w.dir, Decoder: &manifest.Decoder{NodeName: "n"}, Hinter: w.source.hinter})
					require.NoError(t, err)
					s.fs = w.fs
					ctx, cancel := context.WithCancel(t.Context())
					ended, pods := make(chan error), map[string]bool{}
					go func() { ended <- s.Run(ctx, podsInto(pods)) }()
					time.Sleep(after)
					synctest.Wait()
					began := time.Now()
					cancel()
					require.NoError(t, <-ended)
					assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
					if after >= 5*time.Second && names[0] == "a" {
						assert.Len(t, pods, 3-len(names), "the others run")
					}
				}
				w.release(names...)
			})
		})
	}
}

// podsInto is a sink that collects the names of pods.
func podsInto(into map[string]bool) podconfig.Sink {
	return sinkFunc(func(c podconfig.Change) {
		store, _ := podconfig.NewStore(podconfig.StoreOptions{})
		updates, _ := store.Merge(context.Background(), "file", c)
		for _, u := range updates {
			for _, p := range u.Pods {
				into[p.Name] = true
			}
		}
	})
}

type sinkFunc func(podconfig.Change)

func (f sinkFunc) Submit(_ context.Context, c podconfig.Change) error { f(c); return nil }

// TestRealFilesThatBlock uses a link to /proc/kmsg, whose read waits for the kernel's next message,
// and an open call that blocks in the kernel. The open blocks because a named pipe replaced the
// file, and the file system ignores O_NONBLOCK.
func TestRealFilesThatBlock(t *testing.T) {
	w := newWard(t, nil, "b", "d")
	require.NoError(t, syscall.Mkfifo(w.path("c"), 0o600))
	w.source.fs = blocking{w.path("c")}
	if _, err := os.Stat("/proc/kmsg"); err == nil {
		require.NoError(t, os.Symlink("/proc/kmsg", w.path("a")))
	}
	w.scan()
	time.Sleep(w.source.waits.folder)
	require.Equal(t, []string{"b", "d"}, w.scan())
	require.Contains(t, w.problems["c"], "does not answer")
	if os.Geteuid() == 0 {
		require.Contains(t, w.problems, "a")
	}
	// End the open call, so that no thread is left behind.
	pipe, err := os.OpenFile(w.path("c"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer pipe.Close()
	<-w.source.disk.hung[w.path("c")]
}

// blocking is a file system that opens a path without O_NONBLOCK.
type blocking struct{ path string }

func (blocking) list(path string, before listing) listing { return list(path, before) }
func (blocking) holds(path string, l listing) bool        { return l.holds(path) }
func (b blocking) look(path string, known stamp, limit int64) look {
	if path == b.path {
		f, err := os.Open(path)
		if err == nil {
			err = f.Close()
		}
		return look{err: err}
	}
	return system{}.look(path, known, limit)
}
