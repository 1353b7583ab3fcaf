// SPDX-License-Identifier: Apache-2.0

package nodestats_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/cgroup"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// reader is a stats.Reader that takes a second, or blocks until its context ends.
type reader struct {
	calls, atOnce atomic.Int32
	hang          atomic.Bool
	err           error
	pods          []stats.Pod
}

func (*reader) ContainerStats(context.Context, runtime.ContainerID) (*stats.Container, error) {
	return nil, runtime.ErrNotFound
}

func (r *reader) ListStats(ctx context.Context) ([]stats.Pod, error) {
	r.calls.Add(1)
	if r.atOnce.Add(1) > 1 {
		panic("two measurements at once")
	}
	defer r.atOnce.Add(-1)
	limit := time.Second
	if r.hang.Load() {
		limit = time.Hour
	}
	select {
	case <-time.After(limit):
		return r.pods, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newCollector(t testing.TB, opts nodestats.Options) *nodestats.Collector {
	t.Helper()
	opts.NodeName, opts.Root, opts.LogDir = "n", t.TempDir(), t.TempDir()
	if opts.Pods == nil {
		opts.Pods = func() []*v1.Pod { return nil }
	}
	if opts.Machine.Root == "" {
		opts.Machine = host.Machine{Root: t.TempDir()}
	}
	c, err := nodestats.New(opts)
	require.NoError(t, err)
	return c
}

// Readers at the same time share a measurement. A fresh request gets one that began after the call,
// and many fresh requests share that one.
func TestReadersShareMeasurements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		c := newCollector(t, nodestats.Options{Runtime: r})
		collect := func(want nodestats.Request) *nodestats.Snapshot {
			s, err := c.Collect(t.Context(), want)
			require.NoError(t, err)
			return s
		}
		many := func(want nodestats.Request) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					asked := time.Now()
					if s := collect(want); want.Fresh {
						require.False(t, s.At.Before(asked))
					}
				})
			}
			all.Wait()
		}
		many(nodestats.Request{})
		require.EqualValues(t, 1, r.calls.Load())
		many(nodestats.Request{Detail: nodestats.CPUAndMemory})
		require.EqualValues(t, 1, r.calls.Load(), "a complete snapshot has it, too")
		time.Sleep(4 * time.Second) // 5 s after the begin
		collect(nodestats.Request{})
		require.EqualValues(t, 1, r.calls.Load())
		time.Sleep(time.Nanosecond)
		collect(nodestats.Request{})
		require.EqualValues(t, 2, r.calls.Load())

		go collect(nodestats.Request{Fresh: true})
		time.Sleep(time.Millisecond)
		many(nodestats.Request{Fresh: true}) // the one under way began before
		require.EqualValues(t, 4, r.calls.Load())

		time.Sleep(time.Minute)
		small := collect(nodestats.Request{Detail: nodestats.CPUAndMemory})
		assert.Nil(t, small.Summary.Node.Fs)
		full := collect(nodestats.Request{})
		assert.NotNil(t, full.Summary.Node.Fs, "a small snapshot does not satisfy it")
		collect(nodestats.Request{Detail: nodestats.Containers})
		require.EqualValues(t, 5, r.calls.Load(), "the containers are measured once for all three")
		require.Equal(t, small.At, full.At)
	})
}

// A reader that leaves does not fail the others, and nobody waits for a reader that hangs.
func TestAReaderThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		r.hang.Store(true)
		c := newCollector(t, nodestats.Options{Runtime: r})
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.Collect(first, nodestats.Request{})
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Collect(impatient, nodestats.Request{})
		require.ErrorIs(t, err, context.DeadlineExceeded, "while it waits for the first")
		all.Go(func() {
			_, err := c.Collect(t.Context(), nodestats.Request{})
			require.NoError(t, err)
		})
		synctest.Wait()
		r.hang.Store(false)
		leave()
		all.Wait()
		require.EqualValues(t, 2, r.calls.Load())
	})
}

// A node in a container has the memory and the processor time of its cgroup.
func TestANodeInAContainer(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nInactive(file): 50 kB\n")
	write("proc/stat", "cpu 100 0 0 0 0 0 0 0\n")
	write("memory/memory.usage_in_bytes", "300000\n")
	write("memory/memory.stat", "total_inactive_file 100000\ntotal_rss 150000\n")
	write("cpuacct/cpuacct.usage", "7000000000\n")
	free := func(contained bool) (nodestats.Amount, *statsapi.NodeStats) {
		c := newCollector(t, nodestats.Options{Machine: host.Machine{Root: dir}, Cgroups: cgroup.New(dir), Contained: contained})
		f, err := c.Free(t.Context())
		require.NoError(t, err)
		s, err := c.Collect(t.Context(), nodestats.Request{})
		require.NoError(t, err)
		require.EqualValues(t, f.Memory.Available, *s.Summary.Node.Memory.AvailableBytes)
		return f.Memory, &s.Summary.Node
	}
	for limit, want := range map[string]nodestats.Amount{
		"400000":              {Capacity: 400000, Available: 200000},
		"150000":              {Capacity: 150000},
		"9223372036854771712": {Capacity: 1000 << 10, Available: 1000<<10 - 200000}, // none
		"2000000":             {Capacity: 1000 << 10, Available: 1000<<10 - 200000},
	} {
		write("memory/memory.limit_in_bytes", limit+"\n")
		got, node := free(true)
		assert.Equal(t, want, got, limit)
		assert.EqualValues(t, 300000, *node.Memory.UsageBytes)
		assert.EqualValues(t, 150000, *node.Memory.RSSBytes)
		assert.EqualValues(t, 7*time.Second, *node.CPU.UsageCoreNanoSeconds)
		got, node = free(false)
		assert.Equal(t, nodestats.Amount{Capacity: 1000 << 10, Available: 150 << 10}, got)
		assert.EqualValues(t, time.Second, *node.CPU.UsageCoreNanoSeconds)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "memory")))
	got, _ := free(true)
	assert.Equal(t, nodestats.Amount{Capacity: 1000 << 10, Available: 150 << 10}, got, "no cgroup of memory")
}

func TestAFailureIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{err: errors.New("no runtime")}
		c := newCollector(t, nodestats.Options{Runtime: r})
		_, err := c.Collect(t.Context(), nodestats.Request{})
		require.ErrorContains(t, err, "usage of containers: no runtime")
		r.err = nil
		_, err = c.Collect(t.Context(), nodestats.Request{})
		require.NoError(t, err)

		images := func(context.Context) (stats.FileSystem, error) { return stats.FileSystem{}, errors.New("no images") }
		c = newCollector(t, nodestats.Options{ImageFS: images})
		_, err = c.Collect(t.Context(), nodestats.Request{})
		require.ErrorContains(t, err, "usage of images: no images")
		_, err = c.Collect(t.Context(), nodestats.Request{Detail: nodestats.CPUAndMemory})
		require.NoError(t, err, "it reads no disk")
	})
}

func TestOptions(t *testing.T) {
	pods := func() []*v1.Pod { return nil }
	for want, opts := range map[string]nodestats.Options{
		"Options.NodeName": {Pods: pods, Root: "/r", LogDir: "/l"},
		"Options.Pods":     {NodeName: "n", Root: "/r", LogDir: "/l"},
		"Options.Root":     {NodeName: "n", Pods: pods, Root: "r", LogDir: "/l"},
		"Options.LogDir":   {NodeName: "n", Pods: pods, Root: "/r"},
	} {
		_, err := nodestats.New(opts)
		require.ErrorContains(t, err, want)
	}
}

// On cgroup version 1 a runtime tells no swap. On a machine without swap the answer is known, and
// upstream's spec of resource metrics asks for it.
func TestContainersOnAMachineWithoutSwapUseNone(t *testing.T) {
	for name, c := range map[string]struct{ meminfo, want string }{
		"no swap":    {"MemTotal: 1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", `container_swap_usage_bytes{pod="web",namespace="default",container="main"} 0 `},
		"swap":       {"MemTotal: 1000 kB\nSwapTotal: 9 kB\nSwapFree: 9 kB\n", ""},
		"not a word": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := t.TempDir()
				require.NoError(t, os.MkdirAll(filepath.Join(root, "proc"), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(root, "proc", "meminfo"), []byte(c.meminfo), 0o644))
				pod := &v1.Pod{}
				pod.Namespace, pod.Name, pod.UID = "default", "web", "1"
				main := stats.Container{ID: runtime.ContainerID{Runtime: "test", ID: "m"}, Name: "main", Memory: stats.Memory{At: time.Now(), WorkingSet: 5}}
				r := &reader{pods: []stats.Pod{{UID: "1", Namespace: "default", Name: "web", Containers: []stats.Container{main}}}}
				collector := newCollector(t, nodestats.Options{Runtime: r, Machine: host.Machine{Root: root}, Pods: func() []*v1.Pod { return []*v1.Pod{pod} }})
				s, err := collector.Collect(t.Context(), nodestats.Request{})
				require.NoError(t, err)
				var out strings.Builder
				require.NoError(t, nodestats.WriteResourceMetrics(&out, s.Summary))
				require.Contains(t, out.String(), `container_memory_working_set_bytes{pod="web",namespace="default",container="main"} 5 `)
				if c.want == "" {
					require.NotContains(t, out.String(), "\ncontainer_swap")
					return
				}
				require.Contains(t, out.String(), c.want)
				require.Contains(t, out.String(), `container_swap_limit_bytes{pod="web",namespace="default",container="main"} 0 `)
				require.Contains(t, out.String(), `pod_swap_usage_bytes{pod="web",namespace="default"} 0 `)
			})
		})
	}
}
