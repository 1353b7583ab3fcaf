// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkUpdateToSync measures the time from the call of UpdatePod to the first line of SyncPod for an idle pod among
// idle pods (goal: median at most 20 µs), beside a floor and the kubelet's shape in the same run:
//
//   - floor: start a goroutine that receives from a channel without contention;
//   - kubelet: a goroutine per pod, woken through a channel of capacity 1, that takes the update from a map under a lock.
func BenchmarkUpdateToSync(b *testing.B) {
	for _, pods := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("keelson/pods=%d", pods), func(b *testing.B) { benchmarkWorkers(b, pods) })
	}
	b.Run("floor", func(b *testing.B) {
		entered := make(chan time.Time)
		measure(b, entered, func() {
			work := make(chan struct{}, 1)
			go func() { <-work; entered <- time.Now() }()
			work <- struct{}{}
		})
	})
	for _, pods := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("kubelet/pods=%d", pods), func(b *testing.B) {
			entered := make(chan time.Time)
			shape := newKubeletShape(pods, func() { entered <- time.Now() })
			defer shape.stop()
			n := 0
			measure(b, entered, func() { shape.update(n % pods); n++ })
		})
	}
}

// measure calls update again and again, receives from entered when the sync began, and reports the median and the
// 99th percentile of the time between.
func measure(b *testing.B, entered <-chan time.Time, update func()) {
	var times []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		update()
		times = append(times, (<-entered).Sub(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "median-ns")
	b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
}

func benchmarkWorkers(b *testing.B, pods int) {
	entered := make(chan time.Time)
	all := benchPods(pods)
	w, stop := steadyWorkers(b, all, func(_ context.Context, r SyncRequest) (Outcome, error) {
		if r.Type == UpdateUpdate {
			entered <- time.Now()
		}
		return Outcome{}, nil
	})
	n := 0
	measure(b, entered, func() {
		if err := w.UpdatePod(Update{Type: UpdateUpdate, Pod: all[n%pods]}); err != nil {
			b.Error(err)
		}
		n++
	})
	stop()
}

func benchPods(pods int) []*v1.Pod {
	all := make([]*v1.Pod, pods)
	for i := range all {
		all[i] = testPod(types.UID(fmt.Sprintf("%036d", i)))
	}
	return all
}

// steadyWorkers returns running Workers to which every pod has been added and synced once, with no call in flight, and a
// func that ends Run.
func steadyWorkers(b *testing.B, pods []*v1.Pod, sync func(context.Context, SyncRequest) (Outcome, error)) (*Workers, func()) {
	var created atomic.Int64
	w, err := New(Options{Syncer: &funcSyncer{sync: sync}, OnSync: func(e SyncEvent) {
		if e.Type == UpdateCreate {
			created.Add(1)
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	for _, pod := range pods {
		if err := w.UpdatePod(Update{Type: UpdateCreate, Pod: pod}); err != nil {
			b.Fatal(err)
		}
	}
	for created.Load() < int64(len(pods)) || w.anyBusy() {
		goruntime.Gosched()
	}
	return w, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

// anyBusy reports whether some pod has a goroutine.
func (w *Workers) anyBusy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.mu.entries {
		if e.driven {
			return true
		}
	}
	return false
}

// BenchmarkIdleMemory reports the memory of 10,000 idle pods beyond the pods themselves, each with its resync timer
// armed (goal: at most 1 KB and no goroutine), beside a goroutine, context and channel per pod.
func BenchmarkIdleMemory(b *testing.B) {
	const pods = 10_000
	b.Run("keelson", func(b *testing.B) {
		all := benchPods(pods) // Not counted.
		for b.Loop() {
			before, goroutines := footprint()
			_, stop := steadyWorkers(b, all, nil)
			after, now := footprint()
			b.ReportMetric(float64(after-before)/pods, "B/pod")
			b.ReportMetric(float64(now-goroutines-1)/pods, "goroutines/pod") // Without Run's own.
			stop()
		}
		goruntime.KeepAlive(all)
	})
	b.Run("kubelet", func(b *testing.B) {
		for b.Loop() {
			before, goroutines := footprint()
			shape := newKubeletShape(pods, func() {})
			for i := range pods {
				shape.update(i)
			}
			goruntime.Gosched()
			after, now := footprint()
			b.ReportMetric(float64(after-before)/pods, "B/pod")
			b.ReportMetric(float64(now-goroutines)/pods, "goroutines/pod")
			shape.stop()
		}
	})
}

// footprint returns the bytes of heap and stacks in use, and the number of goroutines.
func footprint() (bytes int64, goroutines int) {
	goruntime.GC()
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse), goruntime.NumGoroutine()
}

// BenchmarkSyncKnownPods is the housekeeping pass over steady pods.
func BenchmarkSyncKnownPods(b *testing.B) {
	for _, pods := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			all := benchPods(pods)
			w, stop := steadyWorkers(b, all, nil)
			b.ReportAllocs()
			for b.Loop() {
				w.SyncKnownPods(all)
			}
			stop()
		})
	}
}

// kubeletShape is the way the kubelet's workers wait: a goroutine, a context and a channel per pod. It does nothing
// else, so the result is a lower bound for the kubelet.
type kubeletShape struct {
	signals []chan struct{}
	wg      sync.WaitGroup
	cancels []context.CancelFunc

	mu      sync.Mutex
	pending map[int]time.Time
}

func newKubeletShape(pods int, sync func()) *kubeletShape {
	s := &kubeletShape{signals: make([]chan struct{}, pods), pending: make(map[int]time.Time, pods)}
	for i := range s.signals {
		signal := make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(context.Background())
		s.signals[i] = signal
		s.cancels = append(s.cancels, cancel)
		s.wg.Go(func() {
			for range signal {
				s.mu.Lock()
				delete(s.pending, i)
				s.mu.Unlock()
				if ctx.Err() == nil {
					sync()
				}
			}
		})
	}
	return s
}

func (s *kubeletShape) update(i int) {
	s.mu.Lock()
	s.pending[i] = time.Now()
	s.mu.Unlock()
	select {
	case s.signals[i] <- struct{}{}:
	default:
	}
}

func (s *kubeletShape) stop() {
	for i, signal := range s.signals {
		close(signal)
		s.cancels[i]()
	}
	s.wg.Wait()
}
