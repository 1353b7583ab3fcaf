// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// pod returns a manifest.
func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: main\n    image: %s\n", name, image)
}

// fixture is a folder and a source of it, driven step by step in virtual time.
type fixture struct {
	*testing.T
	dir    string
	source *file.Source

	mu       sync.Mutex
	problems []string // "path: reason" or "path ok", paths relative to dir
}

func newFixture(t *testing.T, edit ...func(*file.Config)) *fixture {
	f := &fixture{T: t, dir: filepath.Join(t.TempDir(), "pods")}
	require.NoError(t, os.Mkdir(f.dir, 0o755))
	f.source = f.newSource(edit...)
	return f
}

func (f *fixture) newSource(edit ...func(*file.Config)) *file.Source {
	c := file.Config{Path: f.dir, Decoder: &manifest.Decoder{NodeName: "n", Strict: true}, Problem: func(path string, err error) {
		require.True(f, strings.HasPrefix(path, f.dir))
		text := path + " ok"
		if err != nil {
			text = err.Error()
			require.True(f, strings.HasPrefix(text, path+":"), text)
		}
		require.NotContains(f, text, "\n")
		f.mu.Lock()
		defer f.mu.Unlock()
		f.problems = append(f.problems, strings.ReplaceAll(strings.ReplaceAll(text, f.dir+"/", ""), f.dir, "."))
	}}
	for _, e := range edit {
		e(&c)
	}
	s, err := file.New(c)
	require.NoError(f, err)
	return s
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) write(name, text string) {
	require.NoError(f, os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *fixture) remove(name string) { require.NoError(f, os.RemoveAll(f.path(name))) }

func (f *fixture) rename(from, to string) { require.NoError(f, os.Rename(f.path(from), f.path(to))) }

func (f *fixture) scan() file.Result {
	r, err := f.source.Scan(f.Context())
	require.NoError(f, err)
	return r
}

// settle scans until no recheck is due, advancing the time, and returns the running pods.
func (f *fixture) settle() []string {
	for range 200 {
		r := f.scan()
		if r.Recheck.IsZero() {
			return images(r.Pods)
		}
		require.True(f, r.Recheck.After(time.Now()))
		time.Sleep(time.Until(r.Recheck))
	}
	require.Fail(f, "does not settle")
	return nil
}

// told returns the problems reported since the last call.
func (f *fixture) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.problems
	f.problems = nil
	return p
}

// images formats pods as name=image, without the node's suffix.
func images(pods []*v1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, strings.TrimSuffix(p.Name, "-n")+"="+p.Spec.Containers[0].Image)
	}
	return out
}

func uids(pods []*v1.Pod) []types.UID {
	out := []types.UID{}
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(*testing.T)) { synctest.Test(t, test) }

// snapshot is a submitted state and its time since the start of the test.
type snapshot struct {
	at   time.Duration
	pods []string
}

// sink records snapshots.
type sink struct {
	start time.Time
	err   error

	mu    sync.Mutex
	store *podconfig.Store
	got   []snapshot
}

// Submit merges a change and records the pods of the store by name.
func (s *sink) Submit(ctx context.Context, c podconfig.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.store == nil {
		var err error
		if s.store, err = podconfig.NewStore(podconfig.StoreOptions{}); err != nil {
			return err
		}
	}
	if _, err := s.store.Merge(ctx, podconfig.SourceFile, c); err != nil {
		return err
	}
	pods := []*v1.Pod{}
	for _, p := range s.store.Pods() {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	s.got = append(s.got, snapshot{at: time.Since(s.start), pods: images(pods)})
	return nil
}

func (s *sink) take() []snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := slices.Clone(s.got)
	s.got = nil
	return got
}

// hinter is a file.Hinter with hints from the test.
type hinter struct {
	onArm func()

	mu     sync.Mutex
	fail   error
	calls  int
	ended  int           // ended watches
	hints  chan struct{} // of the last watch
	broken chan struct{}
}

func (h *hinter) Hints(ctx context.Context, _ string) (<-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if h.fail != nil {
		return nil, h.fail
	}
	if h.onArm != nil {
		h.onArm()
	}
	hints, broken := make(chan struct{}, 1), make(chan struct{})
	h.hints, h.broken = hints, broken
	go func() {
		select {
		case <-ctx.Done():
		case <-broken:
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ended++
		close(hints)
	}()
	return hints, nil
}

func (h *hinter) hint() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case h.hints <- struct{}{}:
	default:
	}
}

// failWith makes the start of a watch fail, or work again.
func (h *hinter) failWith(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = err
}

// endWatch ends the last watch from its side.
func (h *hinter) endWatch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.broken)
}

func (h *hinter) counts() (calls, ended int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls, h.ended
}

// running is a fixture with a running source.
type running struct {
	*fixture
	*sink
	*hinter
	stop func() error
}

// run starts the source in a bubble and waits until it is idle. The test must call stop.
func run(f *fixture, edit ...func(*file.Config)) *running {
	r := &running{fixture: f, sink: &sink{start: time.Now()}, hinter: &hinter{}}
	f.source = f.newSource(append([]func(*file.Config){func(c *file.Config) { c.Hinter = r.hinter }}, edit...)...)
	return r.start()
}

func (r *running) start() *running {
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- r.source.Run(ctx, r.sink) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	synctest.Wait()
	return r
}

// change edits the files and sends a hint.
func (r *running) change(do func()) {
	do()
	r.hint()
	synctest.Wait()
}

func (r *running) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
