// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

func TestNewNamesTheBadField(t *testing.T) {
	good := newFixture(t, t.TempDir())
	for field, o := range map[string]checkpoint.Options{
		"Path":    {Pods: good.store},
		"Pods":    {Path: good.path},
		"Sources": {Path: good.path, Pods: good.store, Sources: []string{"api", ""}},
	} {
		_, err := checkpoint.New(o)
		require.ErrorIs(t, err, checkpoint.ErrOptions)
		require.ErrorContains(t, err, field)
	}
}

// A node that boots offline runs the same pods as before (kubernetes#489, #30065).
func TestUpstream489WhatWasSavedIsASeed(t *testing.T) {
	f := newFixture(t, t.TempDir())
	require.Empty(t, f.read(), "no file, no error")
	f.say("file", podconfig.Snapshot(pod("static", "s:1")))
	f.say("api", podconfig.Snapshot(pod("b", "b:1"), pod("a", "a:1"), pod("a2", "a:1")))
	require.NoError(t, f.writer.Save())
	require.Equal(t, []string{"api/b=b:1", "api/a=a:1", "api/a2=a:1", "file/static=s:1"}, f.read())

	seed, err := checkpoint.Read(f.path)
	require.NoError(t, err)
	s, err := podconfig.NewStore(podconfig.StoreOptions{Seed: seed})
	require.NoError(t, err)
	was, _ := f.store.Get("api", "uid-a")
	is, _ := s.Get("api", "uid-a")
	require.Equal(t, was.Annotations, is.Annotations, "first seen then, not now")
	require.Equal(t, secret, is.Spec.Containers[0].Env[0].Value)
	require.Nil(t, is.ManagedFields)
	require.NotNil(t, was.ManagedFields, "those of the store are not touched")

	require.False(t, s.Seen("api"), "a checkpoint does not speak for its source")
	updates, err := s.Merge(t.Context(), "api", podconfig.Snapshot(pod("b", "b:1"), pod("a", "a:2")))
	require.NoError(t, err)
	require.Len(t, updates, 2)
	require.Equal(t, podconfig.OpRemove, updates[0].Op)
	require.Equal(t, "a2", updates[0].Pods[0].Name)
	require.Equal(t, podconfig.OpUpdate, updates[1].Op)
	require.Len(t, updates[1].Pods, 1)
	require.True(t, s.Seen("api"))
}

func TestSaveWritesForTheOwnerAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	f := newFixture(t, t.TempDir())
	require.NoError(t, os.WriteFile(f.path, nil, 0o666))
	require.NoError(t, os.Symlink("/nowhere/at/all", f.path+".tmp"))
	require.NoError(t, f.writer.Save())
	info, err := os.Stat(f.path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	require.False(t, f.exists(f.path+".tmp"))
}

func TestSaveOfSomeSources(t *testing.T) {
	f := newFixture(t, t.TempDir(), func(o *checkpoint.Options) { o.Sources = []string{"api"} })
	f.say("file", podconfig.Snapshot(pod("static", "s:1")))
	f.say("api", podconfig.Snapshot(pod("a", "a:1")))
	require.NoError(t, f.writer.Save())
	require.Equal(t, []string{"api/a=a:1"}, f.read())
}

// Flash wears out: unchanged content is not written again, not even after a restart.
func TestSaveOfTheSameWritesNothing(t *testing.T) {
	f := newFixture(t, t.TempDir())
	f.say("api", podconfig.Snapshot(pod("a", "a:1")))
	inode := func() uint64 {
		info, err := os.Stat(f.path)
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	require.NoError(t, f.writer.Save())
	first := inode()
	require.NoError(t, f.writer.Save())
	again, err := checkpoint.New(checkpoint.Options{Path: f.path, Pods: f.store})
	require.NoError(t, err)
	require.NoError(t, again.Save())
	require.Equal(t, first, inode())

	require.NoError(t, os.Remove(f.path))
	require.NoError(t, f.writer.Save())
	require.Equal(t, []string{"api/a=a:1"}, f.read(), "somebody removed it")
	require.NoError(t, os.WriteFile(f.path, []byte("rubbish"), 0o600))
	other, err := checkpoint.New(checkpoint.Options{Path: f.path, Pods: f.store})
	require.NoError(t, err)
	require.NoError(t, other.Save())
	require.Equal(t, []string{"api/a=a:1"}, f.read(), "whatever was there is replaced")
}

// TestSaveAfterTheFileWasReplaced expects the next Save to replace any file put in place of the
// checkpoint.
func TestSaveAfterTheFileWasReplaced(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"rubbish":               func(path string) error { return os.WriteFile(path, []byte("rubbish"), 0o600) },
		"nothing":               func(path string) error { return os.Truncate(path, 0) },
		"cut off":               func(path string) error { return os.Truncate(path, 100) },
		"open to others":        func(path string) error { return os.Chmod(path, 0o666) },
		"a link to nowhere":     func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/nowhere/at/all", path)) },
		"another with the size": func(path string) error { return turnByte(path) },
		"a named pipe":          func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, t.TempDir())
			f.say("api", podconfig.Snapshot(pod("a", "a:1")))
			require.NoError(t, f.writer.Save())
			require.NoError(t, replace(f.path))
			require.NoError(t, f.writer.Save())
			require.Equal(t, []string{"api/a=a:1"}, f.read())
		})
	}
}

// turnByte changes a byte of a file and sets its times back.
func turnByte(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, info.ModTime(), info.ModTime()))
}

func TestSaveFailureKeepsTheOld(t *testing.T) {
	f := newFixture(t, t.TempDir())
	f.say("api", podconfig.Snapshot(pod("a", "a:1")))
	require.NoError(t, f.writer.Save())
	f.say("api", podconfig.Snapshot(pod("b", "b:1")))
	require.NoError(t, os.MkdirAll(f.path+".tmp/full", 0o700)) // cannot be removed, nor written to
	err := f.writer.Save()
	fileErr, ok := err.(*checkpoint.FileError)
	require.True(t, ok)
	require.Equal(t, "write", fileErr.Op)
	require.Equal(t, []string{"api/a=a:1"}, f.read())
	require.NoError(t, os.RemoveAll(f.path+".tmp"))
	require.NoError(t, f.writer.Save())
	require.Equal(t, []string{"api/b=b:1"}, f.read())

	require.NoError(t, os.Remove(f.path))
	require.NoError(t, os.Mkdir(f.path, 0o700))
	f.say("api", podconfig.Snapshot())
	err = f.writer.Save()
	require.ErrorContains(t, err, "checkpoint "+f.path+": replace: file exists")
	require.False(t, f.exists(f.path+".tmp"), "nothing is left behind")

	lost := newFixture(t, filepath.Join(t.TempDir(), "no", "folder"))
	require.ErrorIs(t, lost.writer.Save(), fs.ErrNotExist)
}

// TestSaveAfterAFailureWritesInAnyCase: after a failed write, even of the last step, the file may
// hold the new content although its name is not synced to the disk. The next Save returns an error
// while writing fails, and then writes the file.
func TestSaveAfterAFailureWritesInAnyCase(t *testing.T) {
	f := newFixture(t, t.TempDir())
	f.say("api", podconfig.Snapshot(pod("a", "a:1")))
	require.NoError(t, f.writer.Save())
	f.say("api", podconfig.Snapshot(pod("b", "b:1")))
	require.NoError(t, os.MkdirAll(f.path+".tmp/full", 0o700))
	require.Error(t, f.writer.Save())
	other, err := checkpoint.New(checkpoint.Options{Path: f.path + ".other", Pods: f.store})
	require.NoError(t, err)
	require.NoError(t, other.Save())
	require.NoError(t, os.Rename(f.path+".other", f.path)) // like a write before its failing step
	require.Error(t, f.writer.Save())
	require.NoError(t, os.RemoveAll(f.path+".tmp"))
	before, err := os.Stat(f.path)
	require.NoError(t, err)
	require.NoError(t, f.writer.Save())
	after, err := os.Stat(f.path)
	require.NoError(t, err)
	require.False(t, os.SameFile(before, after), "written anew")
	require.NoError(t, f.writer.Save())
	again, err := os.Stat(f.path)
	require.NoError(t, err)
	require.True(t, os.SameFile(after, again), "once")
	require.Equal(t, []string{"api/b=b:1"}, f.read())
}

// A terminated pod must not run again because of an outdated phase in the checkpoint.
func TestLastPhaseIsKept(t *testing.T) {
	f := newFixture(t, t.TempDir())
	done := pod("job", "j:1")
	done.Status.Phase = v1.PodSucceeded
	f.say("api", podconfig.Snapshot(done))
	require.NoError(t, f.writer.Save())
	seed, err := checkpoint.Read(f.path)
	require.NoError(t, err)
	assert.Equal(t, v1.PodSucceeded, seed["api"][0].Status.Phase)
}
