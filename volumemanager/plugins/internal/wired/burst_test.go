// SPDX-License-Identifier: Apache-2.0

package wired_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

const burstPods = 100

// BenchmarkBurst measures the time until a hundred pods with two volumes each, requested at once,
// are ready.
//
// The time of a disk for the same files differs by a factor of thirty, from one minute to the next
// on the same machine. So each round also creates the fewest files for such volumes by plain calls,
// beside the pods: floor-ns is a loop, at-once-ns uses as many goroutines as the manager. Both sync
// the records, as the manager does. ratio is the manager's time divided by the shorter of the two
// times.
func BenchmarkBurst(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			n := newNode(b, b.TempDir())
			n.up(b, pod("first", k.sources...))
			var ours, loop, atOnce []time.Duration
			round := 0
			for b.Loop() {
				round++
				ours = append(ours, n.burst(b, round, k.sources))
				b.StopTimer()
				loop = append(loop, n.floor(b, k.sources, 1))
				atOnce = append(atOnce, n.floor(b, k.sources, 32))
				b.StartTimer()
			}
			n.down(b, "first")
			report(b, ours, 150*time.Millisecond, k.burst)
			b.ReportMetric(float64(median(loop).Nanoseconds()), "floor-ns")
			b.ReportMetric(float64(median(atOnce).Nanoseconds()), "at-once-ns")
			b.ReportMetric(float64(median(ours))/float64(min(median(loop), median(atOnce))), "ratio")
		})
	}
}

// burst returns the time until all pods are ready, and removes the pods.
func (n *node) burst(b *testing.B, round int, sources []v1.VolumeSource) time.Duration {
	uid := func(i int) types.UID { return types.UID(fmt.Sprint(round, "-", i)) }
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range burstPods {
		wg.Go(func() { n.up(b, pod(uid(i), sources...)) })
	}
	wg.Wait()
	took := time.Since(begin)
	b.StopTimer()
	for i := range burstPods {
		wg.Go(func() { n.down(b, uid(i)) })
	}
	wg.Wait()
	b.StartTimer()
	return took
}

// floor returns the time of plain calls with the given number of workers, and removes the files.
func (n *node) floor(b *testing.B, sources []v1.VolumeSource, workers int) time.Duration {
	var pods []barePod
	for i := range burstPods {
		dir := filepath.Join(n.root, "pods", fmt.Sprint("floor-", i))
		pods = append(pods, barePod{b.Context(), mount.Detect(), dir, sources})
	}
	next := make(chan barePod)
	var wg sync.WaitGroup
	begin := time.Now()
	for range workers {
		wg.Go(func() {
			for p := range next {
				require.NoError(b, p.setUp())
			}
		})
	}
	for _, p := range pods {
		next <- p
	}
	close(next)
	wg.Wait()
	took := time.Since(begin)
	for _, p := range pods {
		require.NoError(b, p.tearDown())
	}
	return took
}

// barePod creates the minimal files of a pod with such volumes.
type barePod struct {
	ctx     context.Context
	mounter mount.Mounter
	dir     string
	sources []v1.VolumeSource
}

func (p barePod) volume(i int) string {
	return filepath.Join(p.dir, "volumes", "plugin", fmt.Sprint("v", i))
}

func (p barePod) setUp() error {
	err := errors.Join(
		os.Mkdir(p.dir, 0o750), os.Mkdir(filepath.Join(p.dir, "volumes"), 0o750), os.Mkdir(filepath.Dir(p.volume(0)), 0o750),
	)
	for i, s := range p.sources {
		record := bytes.Repeat([]byte{'x'}, 250)
		err = errors.Join(err, bareFile(fmt.Sprint(p.dir, "/v", i, ".json"), record, true), os.Mkdir(p.volume(i), 0o755))
		if s.Secret != nil {
			if failed := p.mounter.Mount(p.ctx, mount.Request{Source: "tmpfs", Target: p.volume(i), Type: "tmpfs"}); !errors.Is(failed, mount.ErrUnsupported) {
				err = errors.Join(err, failed)
			}
		}
		if s.EmptyDir != nil {
			continue
		}
		version := filepath.Join(p.volume(i), "..version")
		err = errors.Join(err, os.Mkdir(version, 0o755), bareFile(filepath.Join(version, "key"), []byte("first"), false),
			os.Symlink("..version", filepath.Join(p.volume(i), "..data")),
			os.Symlink("..data/key", filepath.Join(p.volume(i), "key")))
	}
	return err
}

func bareFile(name string, data []byte, synced bool) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (p barePod) tearDown() error {
	for i := range p.sources {
		if err := p.mounter.Unmount(p.ctx, p.volume(i)); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.dir)
}
