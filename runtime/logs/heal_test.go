// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crashing is a folder that dies with the process: call number n and all later calls fail.
type crashing struct {
	folder
	left *int
}

var errCrash = errors.New("the process has died")

func (c crashing) dead() bool {
	*c.left--
	return *c.left < 0
}

func (c crashing) rename(from, to string) error {
	if c.dead() {
		return errCrash
	}
	return c.folder.rename(from, to)
}

func (c crashing) putBack(from, to string) error {
	if c.dead() {
		return errCrash
	}
	return c.folder.putBack(from, to)
}

func (c crashing) remove(name string) error {
	if c.dead() {
		return errCrash
	}
	return c.folder.remove(name)
}

func (c crashing) setTime(name string, at time.Time) error {
	if c.dead() {
		return errCrash
	}
	return c.folder.setTime(name, at)
}

func (c crashing) create(name string, mode os.FileMode) (newFile, error) {
	if c.dead() {
		return nil, errCrash
	}
	f, err := c.folder.create(name, mode)
	return crashingFile{f, c}, err
}

type crashingFile struct {
	newFile
	c crashing
}

func (f crashingFile) Write(p []byte) (int, error) {
	if f.c.dead() {
		n, _ := f.newFile.Write(p[:len(p)/2])
		return n, errCrash
	}
	return f.newFile.Write(p)
}

// The process dies at any point of a step: nothing is lost or there twice, and
// the next step puts everything in order.
func TestRotateHealsACrashAtAnyPoint(t *testing.T) {
	for n := 0; ; n++ {
		w := newRuntimeLog(t)
		good, bad := w.rotator(nil), w.rotator(nil)
		for range 3 { // something to remove, and something to compress
			w.print(30)
			require.NoError(t, good.Rotate(t.Context(), w.log()))
		}
		before := w.lines
		w.print(30)
		left := n
		bad.openFolder = func(dir string) (folder, error) {
			f, err := openFolder(dir)
			return crashing{f, &left}, err
		}
		w.reopening = func(context.Context) error {
			if left--; left < 0 {
				return errCrash
			}
			return w.open()
		}
		err := bad.Rotate(t.Context(), w.log())
		w.check(before)
		if left >= 0 {
			require.NoError(t, err)
			require.Greater(t, n, 6, "there were several points to die at")
			return
		}
		w.reopening = nil
		w.print(5)
		w.check(before)
		require.NoError(t, good.Rotate(t.Context(), w.log()), "after %d calls", n)
		w.print(5)
		w.clean(4)
		w.check(before)
		w.print(30)
		require.NoError(t, good.Rotate(t.Context(), w.log()))
		w.clean(4)
		w.check(before)
	}
}

func TestRotateHealsWhenThereIsNothingToRotate(t *testing.T) {
	w := newRuntimeLog(t)
	w.print(1)
	for _, name := range []string{".20260701-120000", ".20260701-120000.gz", ".20260701-120001.gz.tmp"} {
		require.NoError(t, os.WriteFile(w.path+name, zip(t, ""), 0o600))
	}
	require.NoError(t, w.rotator(nil).Rotate(t.Context(), w.log()))
	require.ElementsMatch(t, []string{"0.log", "0.log.20260701-120000.gz"}, w.files())
}

func TestRotateHealsAPutBackThatWasInterrupted(t *testing.T) {
	w := newRuntimeLog(t)
	w.print(30)
	require.NoError(t, os.Link(w.path, w.path+".20260701-120000"))
	require.NoError(t, w.rotator(nil).Rotate(t.Context(), w.log()))
	w.check(0)
	w.print(30)
	require.NoError(t, w.rotator(nil).Rotate(t.Context(), w.log()))
	w.check(0)
	w.clean(4)
	require.Len(t, w.files(), 3)
}

// fullDisk has no room for anything new.
type fullDisk struct{ folder }

func (d fullDisk) create(name string, mode os.FileMode) (newFile, error) {
	f, err := d.folder.create(name, mode)
	return fullFile{f}, err
}

type fullFile struct{ newFile }

func (f fullFile) Write(p []byte) (int, error) {
	n, _ := f.newFile.Write(p[:len(p)/3])
	return n, syscall.ENOSPC
}

// On a full disk no file can be compressed, but the log is rotated, and the removal of the oldest
// file frees space.
func TestRotateOnAFullDisk(t *testing.T) {
	w := newRuntimeLog(t)
	r := w.rotator(nil)
	r.openFolder = func(dir string) (folder, error) {
		f, err := openFolder(dir)
		return fullDisk{f}, err
	}
	for round := range 6 {
		w.print(30)
		err := r.Rotate(t.Context(), w.log())
		require.Equal(t, round > 0, errors.Is(err, syscall.ENOSPC), "%v", err)
		w.clean(4)
		w.check(w.lines - 90)
	}
	r.openFolder = openFolder
	w.print(30)
	require.NoError(t, r.Rotate(t.Context(), w.log()))
	w.clean(4)
	w.check(w.lines - 90)
}
