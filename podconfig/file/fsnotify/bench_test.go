// SPDX-License-Identifier: Apache-2.0

package fsnotify_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/file"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

type counts chan int

func (c counts) Submit(_ context.Context, change podconfig.Change) error {
	c <- len(change.Pods())
	return nil
}

// BenchmarkManifest measures the time from writing, changing or removing a file to the resulting
// snapshot.
func BenchmarkManifest(b *testing.B) {
	dir := b.TempDir()
	src, err := file.New(file.Config{Path: dir, Decoder: &manifest.Decoder{NodeName: "n"}, Hinter: fsnotify.Hinter{}})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	got, done := make(counts), make(chan error)
	go func() { done <- src.Run(ctx, got) }()
	<-got
	path := dir + "/a.yaml"
	write := func(image string) { require.NoError(b, os.WriteFile(path, []byte(pod("a", image)), 0o644)) }
	remove := func() { require.NoError(b, os.Remove(path)) }
	// step times do until its snapshot. undo is not timed.
	step := func(name string, do, undo func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
				<-got
				b.StopTimer()
				undo()
				<-got
				b.StartTimer()
			}
		})
	}
	step("written", func() { write("i") }, remove)
	write("i")
	<-got
	step("changed", func() { write("j") }, func() { write("i") })
	step("removed", remove, func() { write("i") })
	cancel()
	require.NoError(b, <-done)
}
