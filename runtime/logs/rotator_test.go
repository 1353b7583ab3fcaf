// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

// runtimeLog is a runtime that writes one container's log.
type runtimeLog struct {
	t     *testing.T
	path  string
	file  *os.File
	lines int
	// reopening replaces what ReopenLog does.
	reopening func(ctx context.Context) error
	reopened  int
}

func newRuntimeLog(t *testing.T) *runtimeLog {
	w := &runtimeLog{t: t, path: filepath.Join(t.TempDir(), "0.log")}
	require.NoError(t, w.open())
	t.Cleanup(func() { _ = w.file.Close() })
	return w
}

func (w *runtimeLog) log() Log {
	return Log{ID: runtime.ContainerID{Runtime: "t", ID: "c"}, Path: w.path}
}

func (w *runtimeLog) open() error {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err == nil && w.file != nil {
		err = w.file.Close()
	}
	w.file = f
	return err
}

func (w *runtimeLog) ReopenLog(ctx context.Context, id runtime.ContainerID) error {
	require.Equal(w.t, "t://c", id.String())
	w.reopened++
	if w.reopening != nil {
		return w.reopening(ctx)
	}
	return w.open()
}

// print writes n lines.
func (w *runtimeLog) print(n int) {
	for range n {
		_, err := w.file.WriteString(entryLine(Stdout, "F", fmt.Sprint("line ", w.lines)))
		require.NoError(w.t, err)
		w.lines++
	}
}

// check reads all files: they hold the last lines, each once, from first on or
// earlier.
func (w *runtimeLog) check(first int) {
	w.t.Helper()
	var b bytes.Buffer
	_, err := Read(w.t.Context(), Request{Path: w.path, Stdout: &b})
	require.NoError(w.t, err)
	got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	begin := w.lines - len(got)
	require.LessOrEqual(w.t, begin, max(first, 0), "nothing is lost")
	for i, line := range got {
		require.Equal(w.t, fmt.Sprint("line ", begin+i), line)
	}
}

func (w *runtimeLog) files() []string {
	names, err := namesIn(filepath.Dir(w.path))
	require.NoError(w.t, err)
	return names
}

// clean checks that no step has left a file behind.
func (w *runtimeLog) clean(maxFiles int) {
	w.t.Helper()
	names := w.files()
	require.Empty(w.t, leftovers(names, "0.log"))
	require.LessOrEqual(w.t, len(names), maxFiles, "%v", names)
	onDisk, err := os.Stat(w.path)
	require.NoError(w.t, err)
	open, err := w.file.Stat()
	require.NoError(w.t, err)
	require.True(w.t, os.SameFile(onDisk, open), "the log is what is written to")
}

const testMax = 1000 // bytes; a line has about 50

func (w *runtimeLog) rotator(change func(*RotatorOptions)) *Rotator {
	w.t.Helper()
	opts := RotatorOptions{Reopener: w, MaxSize: testMax, MaxFiles: 4,
		Logs: func(context.Context) ([]Log, error) { return []Log{w.log()}, nil }}
	if change != nil {
		change(&opts)
	}
	r, err := NewRotator(opts)
	require.NoError(w.t, err)
	return r
}

// A folder is opened only if its log is big, or if the last look had an error.
func TestFoldersOfSmallLogsAreNotOpened(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	opened, failing := 0, errors.New("the disk is broken")
	var fails error
	r.openFolder = func(dir string) (folder, error) {
		opened++
		if fails != nil {
			return nil, fails
		}
		return openFolder(dir)
	}
	look := func(want int) {
		t.Helper()
		opened = 0
		require.ErrorIs(t, r.RotateAll(t.Context()), fails)
		require.Equal(t, want, opened)
	}
	fails = failing
	look(1)
	fails = nil
	look(1)
	look(0)
	w.print(30)
	look(1)
	require.Equal(t, 1, w.reopened)
	w.clean(4)
	look(0)
	require.NoError(t, os.Remove(w.path))
	look(1)
	require.Equal(t, 2, w.reopened, "a missing log is reopened")
	look(0)
}

func TestRotate(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	w.print(10)
	require.NoError(t, r.Rotate(t.Context(), w.log()))
	require.Equal(t, []string{"0.log"}, w.files(), "not yet")
	for round := range 8 {
		w.print(30)
		require.NoError(t, r.Rotate(t.Context(), w.log()))
		w.clean(4)
		require.Equal(t, round+1, w.reopened)
		files := history(w.files(), "0.log")
		for i, f := range files {
			require.Equal(t, i < len(files)-1, f.gz, "all but the newest")
		}
		w.check(w.lines - 30*3)
	}
	require.NoError(t, r.RotateAll(t.Context()))
	require.Equal(t, 8, w.reopened, "an empty log is not rotated")
}

func TestRotateKeepsModeAndTime(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	w.print(30)
	require.NoError(t, os.Chtimes(w.path, noon(), noon()))
	require.NoError(t, r.Rotate(t.Context(), w.log()))
	w.print(30)
	require.NoError(t, r.Rotate(t.Context(), w.log()))
	info, err := os.Stat(w.path + history(w.files(), "0.log")[0].suffix())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.True(t, noon().Equal(info.ModTime()))
}

func TestRotatePutsTheLogBackIfItCannotBeReopened(t *testing.T) {
	down := errors.New("down")
	for name, reopening := range map[string]func(w *runtimeLog) error{
		"not done":             func(*runtimeLog) error { return down },
		"done, the reply lost": func(w *runtimeLog) error { return errors.Join(down, w.open()) },
		"the container is gone": func(*runtimeLog) error {
			return fmt.Errorf("container: %w", runtime.ErrNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRuntimeLog(t)
			r := w.rotator(nil)
			w.print(30)
			w.reopening = func(context.Context) error { return reopening(w) }
			err := r.Rotate(t.Context(), w.log())
			w.print(1)
			w.check(0)
			if name == "the container is gone" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, down)
			require.ErrorContains(t, err, "rotate log "+w.path+": reopen: down")
			require.NotContains(t, err.Error(), "rename it back")
			w.clean(4)
			w.reopening = nil
			require.NoError(t, r.Rotate(t.Context(), w.log()))
			w.print(1)
			w.check(0)
			w.clean(4)
			require.Len(t, w.files(), 2)
		})
	}
}

// A container that has just ended keeps its log under its own name, without a warning.
func TestRotateOfWhatHasJustEnded(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	w.print(30)
	w.reopening = func(context.Context) error { return fmt.Errorf("container: %w", runtime.ErrNotRunning) }
	require.NoError(t, r.Rotate(t.Context(), w.log()))
	w.check(0)
	require.Equal(t, []string{"0.log"}, w.files())

	require.NoError(t, os.Remove(w.path))
	require.NoError(t, r.Rotate(t.Context(), w.log()), "nor is one warned of a log that is missing")
}

// A file system without hard links.
func TestPutBackNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	f, err := openFolder(dir)
	require.NoError(t, err)
	defer f.Close()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("old", "old")
	write("new", "new")
	require.ErrorIs(t, f.putBack("old", "new"), os.ErrExist)
	raw, err := os.ReadFile(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, "new", string(raw))
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))
	require.NoError(t, f.putBack("old", "new"))
	require.NoFileExists(t, filepath.Join(dir, "old"))
	require.Error(t, f.putBack("../old", "new2"), "never outside")
}

func TestRotateLeavesAloneWhatIsNotALog(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	outside := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(outside, bytes.Repeat([]byte("x"), 2*testMax), 0o600))
	link := filepath.Join(filepath.Dir(w.path), "1.log")
	require.NoError(t, os.Symlink(outside, link))
	require.NoError(t, r.Rotate(t.Context(), Log{ID: w.log().ID, Path: link}))
	folder := filepath.Join(filepath.Dir(w.path), "2.log")
	require.NoError(t, os.Mkdir(folder, 0o755))
	for i := range 100 { // so that it has some size
		require.NoError(t, os.WriteFile(filepath.Join(folder, strings.Repeat("x", 100)+fmt.Sprint(i)), nil, 0o600))
	}
	require.NoError(t, r.Rotate(t.Context(), Log{ID: w.log().ID, Path: folder}))
	require.DirExists(t, folder)
	require.Zero(t, w.reopened)
	require.ErrorContains(t, r.Rotate(t.Context(), Log{Path: "relative"}), "not absolute")
	require.NoError(t, r.Rotate(t.Context(), Log{ID: w.log().ID, Path: filepath.Join(t.TempDir(), "no", "0.log")}), "the container is gone")
	off := w.rotator(func(o *RotatorOptions) { o.MaxSize = -1 })
	w.print(30)
	require.NoError(t, off.Rotate(t.Context(), w.log()))
	require.NoError(t, off.RotateAll(t.Context()))
	require.Zero(t, w.reopened)
}

func TestClean(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	for range 3 {
		w.print(30)
		require.NoError(t, r.Rotate(t.Context(), w.log()))
	}
	other := filepath.Join(filepath.Dir(w.path), "10.log")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, r.Clean(t.Context(), w.path))
	require.Equal(t, []string{"10.log"}, w.files())
	require.NoError(t, r.Clean(t.Context(), w.path), "twice")
	require.NoError(t, r.Clean(t.Context(), filepath.Join(t.TempDir(), "no", "0.log")))
	require.Error(t, r.Clean(t.Context(), "0.log"))
}

func TestNewRotatorNamesTheBadField(t *testing.T) {
	list := func(context.Context) ([]Log, error) { return nil, nil }
	w := &runtimeLog{}
	for field, opts := range map[string]RotatorOptions{
		"Reopener": {Logs: list},
		"Logs":     {Reopener: w},
		"MaxFiles": {Reopener: w, Logs: list, MaxFiles: 1},
	} {
		_, err := NewRotator(opts)
		require.ErrorContains(t, err, "RotatorOptions."+field)
	}
}

// reopenFunc is a LogReopener.
type reopenFunc func(ctx context.Context, id runtime.ContainerID) error

func (f reopenFunc) ReopenLog(ctx context.Context, id runtime.ContainerID) error { return f(ctx, id) }

// A runtime that hangs at a log delays no other log, and delays this log for a limited time.
func TestRotatorRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var list []Log
		for _, name := range []string{"hung", "a", "b", "c"} {
			path := filepath.Join(dir, name, "0.log")
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(entryLine(Stdout, "F", name), 100)), 0o600))
			list = append(list, Log{ID: runtime.ContainerID{Runtime: "t", ID: name}, Path: path})
		}
		var mu sync.Mutex
		at := map[string]time.Duration{}
		began := time.Now()
		r, err := NewRotator(RotatorOptions{
			Logs: func(context.Context) ([]Log, error) { return list, nil }, MaxSize: testMax,
			Reopener: reopenFunc(func(ctx context.Context, id runtime.ContainerID) error {
				if id.ID == "hung" {
					<-ctx.Done()
					return ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				at[id.ID] = time.Since(began)
				return nil
			}),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(11 * time.Second)
		mu.Lock()
		require.Equal(t, map[string]time.Duration{"a": 10 * time.Second, "b": 10 * time.Second, "c": 10 * time.Second}, at)
		mu.Unlock()
		require.NoFileExists(t, list[0].Path)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.FileExists(t, list[0].Path, "put back when the time was up")
		time.Sleep(10 * time.Second) // it hangs again
		cancel()
		require.NoError(t, <-done)
		require.FileExists(t, list[0].Path, "put back at the end, too")
		require.ErrorIs(t, r.Run(t.Context()), ErrRunning)
	})
}

// Two steps at the same log at once do not meet.
func TestRotateOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "0.log")
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(entryLine(Stdout, "F", "x"), 100)), 0o600))
		calls := 0
		r, err := NewRotator(RotatorOptions{
			Logs: func(context.Context) ([]Log, error) { return nil, errors.New("down") }, MaxSize: testMax,
			Reopener: reopenFunc(func(context.Context, runtime.ContainerID) error {
				calls++
				time.Sleep(time.Second)
				return os.WriteFile(path, nil, 0o600)
			}),
		})
		require.NoError(t, err)
		require.ErrorContains(t, r.RotateAll(t.Context()), "list logs: down")
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, r.Rotate(t.Context(), Log{Path: path})) })
		synctest.Wait()
		wg.Go(func() { require.NoError(t, r.Rotate(t.Context(), Log{Path: path})) })
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, r.Rotate(ctx, Log{Path: path}), context.DeadlineExceeded)
		})
		wg.Wait()
		require.Equal(t, 1, calls, "the second found nothing to do")
		names, err := namesIn(dir)
		require.NoError(t, err)
		require.Len(t, names, 2)
	})
}
