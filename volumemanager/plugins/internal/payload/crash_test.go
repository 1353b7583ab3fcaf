// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errDead = errors.New("the process is dead")

// faulty is a disk whose nth step fails, or is interrupted by the end of the process.
type faulty struct {
	disk
	*faults
}

type faults struct {
	steps, at int
	// err is the error of the step; nil means that the process ends in the step.
	err  error
	dead bool
}

// step counts steps. half performs a part of the step, as a process that is killed in the middle;
// it may be nil.
func (f *faults) step(half func()) error {
	f.steps++
	switch {
	case f.dead:
		return errDead
	case f.steps != f.at:
		return nil
	case f.err != nil:
		return f.err
	}
	f.dead = true
	if half != nil {
		half()
	}
	return errDead
}

func (f *faulty) mkdir(name string, mode fs.FileMode) error {
	return cmpErr(f.step(nil), func() error { return f.disk.mkdir(name, mode) })
}

func (f *faulty) create(name string) (file, error) {
	if err := f.step(nil); err != nil {
		return nil, err
	}
	out, err := f.disk.create(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, out}, nil
}

func (f *faulty) chmod(name string, mode fs.FileMode) error {
	return cmpErr(f.step(nil), func() error { return f.disk.chmod(name, mode) })
}

func (f *faulty) sub(name string) (folder, error) {
	d, err := f.disk.sub(name)
	if err != nil {
		return nil, err
	}
	return &faulty{d.(disk), f.faults}, nil
}

func (f *faulty) symlink(target, name string) error {
	return cmpErr(f.step(nil), func() error { return f.disk.symlink(target, name) })
}

func (f *faulty) rename(from, to string) error {
	return cmpErr(f.step(nil), func() error { return f.disk.rename(from, to) })
}

func (f *faulty) remove(name string) error {
	return cmpErr(f.step(nil), func() error { return f.disk.remove(name) })
}

func (f *faulty) removeAll(name string) error {
	half := func() { // removes one entry only
		entries, err := f.disk.readDir(name)
		if err == nil && len(entries) > 0 {
			_ = f.disk.removeAll(name + "/" + entries[0].Name())
		}
	}
	return cmpErr(f.step(half), func() error { return f.disk.removeAll(name) })
}

func cmpErr(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

type faultyFile struct {
	f *faulty
	file
}

func (w *faultyFile) Write(data []byte) (int, error) {
	half := func() { _, _ = w.file.Write(data[:len(data)/2]) }
	if err := w.f.step(half); err != nil {
		return 0, err
	}
	return w.file.Write(data)
}

func (w *faultyFile) Chown(uid, gid int) error {
	return cmpErr(w.f.step(nil), func() error { return w.file.Chown(uid, gid) })
}

func (w *faultyFile) Chmod(m fs.FileMode) error {
	return cmpErr(w.f.step(nil), func() error { return w.file.Chmod(m) })
}

func (w *faultyFile) Sync() error {
	return cmpErr(w.f.step(nil), func() error { return w.file.Sync() })
}

// payloads are versions that differ in every possible way.
var payloads = []Payload{
	of("a", "the first a", "b", "the first b"),
	of("a", "the second a", "b", "the second b"),      // contents
	of("a", "the second a"),                           // a removed key
	of("a", "the second a", "c", "", "d/e", "deeper"), // added keys
	of("a/b", "now a folder", "d", "now a file"),      // files and folders swapped
	of(), // no files
}

// TestCrashMatrix kills a Write at each of its steps, for each pair of versions. After the kill,
// all files of the old version or all files of the new version are visible. The next Write, of
// either version, leaves exactly its version.
func TestCrashMatrix(t *testing.T) {
	crashes := 0
	for i, before := range payloads {
		for j, after := range payloads {
			if i == j {
				continue
			}
			crashes += everyStep(t, before, after, nil)
		}
	}
	crashes += everyStep(t, nil, payloads[3], nil)
	t.Logf("%d crashes", crashes)
	assert.Greater(t, crashes, 1000)
}

// TestFaultMatrix is like TestCrashMatrix with failing steps, as on a full, broken or read-only
// disk.
func TestFaultMatrix(t *testing.T) {
	faults := 0
	for _, err := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		faults += everyStep(t, payloads[1], payloads[3], err)
		faults += everyStep(t, payloads[3], payloads[4], err)
		faults += everyStep(t, nil, payloads[3], err)
	}
	t.Logf("%d faults", faults)
	assert.Greater(t, faults, 400)
}

// everyStep injects a fault in each step of a change, three times each with a different next
// version, and returns the number of faults.
func everyStep(t *testing.T, before, after Payload, fault error) int {
	t.Helper()
	dir := fastDir(t)
	for at := 1; ; at++ {
		for _, next := range []Payload{before, after, of("x", "quite another")} {
			if next == nil {
				next = after
			}
			v := volumeAt(t, filepath.Join(dir, fmt.Sprint(at, len(next))))
			if before != nil {
				v.write(before, Options{})
			}
			f := &faulty{disk{v.root}, &faults{at: at, err: fault}}
			_, err := write(t.Context(), v.root, f, after, Options{})
			if f.steps < at {
				require.NoError(t, err)
				require.NoError(t, os.RemoveAll(dir))
				return 3 * (at - 1)
			}
			checkAfter(t, v, before, after, err, fmt.Sprintf("step %d", at))
			v.write(next, Options{})
			require.Equal(t, texts(next), v.seen(), "step %d, then %v", at, next)
			require.Len(t, v.names(), len(next.tops())+2, "step %d: nothing is left behind: %v", at, v.names())
			require.NoError(t, v.root.Close())
			require.NoError(t, os.RemoveAll(v.dir))
		}
	}
}

// checkAfter checks that no file is truncated, no versions are mixed, and a volume with content is
// never empty.
func checkAfter(t *testing.T, v *volume, before, after Payload, err error, when string) {
	t.Helper()
	committed := texts(currentFiles(t, v))
	if before == nil {
		if len(committed) > 0 {
			require.Equal(t, texts(after), committed, when)
		}
		return
	}
	require.Contains(t, []map[string]string{texts(before), texts(after)}, committed, "%s: %v", when, err)
	// Links come after the commit: a container may miss a key for a moment, but never sees wrong
	// content.
	for name, text := range v.seen() {
		require.Equal(t, committed[name], text, "%s: %s", when, name)
	}
}

// currentFiles reads the current version.
func currentFiles(t *testing.T, v *volume) Payload {
	t.Helper()
	p := Payload{}
	top := filepath.Join(v.dir, dataLink)
	if _, err := os.Stat(top); err != nil {
		return p
	}
	top, err := filepath.EvalSymlinks(top)
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(top, name)
		p[rel] = File{Data: data}
		return err
	}))
	return p
}

// fastDir returns a folder in memory if possible, because the tests create thousands of volumes in
// it.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "payload")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestUpstreamStaleTempLinkDoesNotBlock is the [M] row: after a crash left a ..data_tmp, every
// later change failed with EEXIST. The test also puts other kinds of files at this path.
func TestUpstreamStaleTempLinkDoesNotBlock(t *testing.T) {
	for name, plant := range map[string]func(dir string) error{
		"link":   func(dir string) error { return os.Symlink("..2020_01_01_00_00_00.1", filepath.Join(dir, tempLink)) },
		"file":   func(dir string) error { return os.WriteFile(filepath.Join(dir, tempLink), nil, 0o600) },
		"folder": func(dir string) error { return os.MkdirAll(filepath.Join(dir, tempLink, "x"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t)
			v.write(payloads[0], Options{})
			require.NoError(t, plant(v.dir))
			v.write(payloads[1], Options{})
			assert.Equal(t, texts(payloads[1]), v.seen())
			assert.False(t, slices.Contains(v.names(), tempLink))
		})
	}
}

// TestUpstream121472LinksAreMended: links missing after a crash are made although the content is
// unchanged.
func TestUpstream121472LinksAreMended(t *testing.T) {
	v := newVolume(t)
	v.write(payloads[0], Options{})
	require.NoError(t, os.Remove(filepath.Join(v.dir, "b")))
	require.NoError(t, os.Symlink("..data/gone", filepath.Join(v.dir, "gone")))
	assert.False(t, v.write(payloads[0], Options{}))
	assert.Equal(t, []string{"..V", "..data", "a", "b"}, v.names())
}

// TestLeakedVersionsAreSwept: folders of uncommitted versions are removed.
func TestLeakedVersionsAreSwept(t *testing.T) {
	v := newVolume(t)
	v.write(payloads[0], Options{})
	for _, leaked := range []string{"..2020_01_01_00_00_00.1", "..2021_01_01_00_00_00.abc"} {
		require.NoError(t, os.MkdirAll(filepath.Join(v.dir, leaked, "d"), 0o700))
	}
	require.NoError(t, os.Mkdir(filepath.Join(v.dir, "..somebody"), 0o700))
	assert.False(t, v.write(payloads[0], Options{}))
	assert.Equal(t, []string{"..V", "..data", "..somebody", "a", "b"}, v.names())
}

// TestUpstream93686LinkIsMadeAfterItsData: a program that watches the folder for a name may open
// the file at once.
func TestUpstream93686LinkIsMadeAfterItsData(t *testing.T) {
	after, linked := payloads[3], 0
	for at := 1; ; at++ {
		v := newVolume(t)
		f := &faulty{disk{v.root}, &faults{at: at}}
		_, err := write(t.Context(), v.root, f, after, Options{})
		for _, name := range v.names() {
			if name[0] == '.' {
				continue
			}
			linked++
			_, err := os.Stat(filepath.Join(v.dir, name))
			require.NoError(t, err, "step %d: %s leads nowhere yet", at, name)
		}
		for name, text := range v.seen() {
			require.Equal(t, texts(after)[name], text, "step %d", at)
		}
		if err == nil {
			break
		}
	}
	require.Greater(t, linked, len(after.tops()), "some were seen on the way")
}
