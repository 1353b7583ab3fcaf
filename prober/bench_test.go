// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/prober"
)

// answer is a handler without cost.
func answer(context.Context, prober.Target) (prober.Outcome, error) {
	return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
}

// subjects are containers to be probed.
type subjects struct {
	pods []*v1.Pod
	ids  []string
}

// newSubjects makes pods with as many probes as asked for, some per container.
func newSubjects(probes, perContainer int, period int32) subjects {
	s := subjects{pods: manyPods((probes+perContainer-1)/perContainer, func(c *v1.Container) {
		c.LivenessProbe = every(period)
		if perContainer > 1 {
			c.ReadinessProbe = every(period)
		}
	})}
	for i := range s.pods {
		s.ids = append(s.ids, fmt.Sprintf("containerd://%064d", i))
	}
	return s
}

// start begins every instance, at phases that are spread over a period.
func (s subjects) start(p *prober.Prober, period time.Duration) {
	began := time.Now()
	for i, pod := range s.pods {
		spread := period * time.Duration(i) / time.Duration(len(s.pods))
		p.Start(pod, "c", prober.Instance{ID: s.ids[i], StartedAt: began.Add(spread - period), PodIP: "10.0.0.1"})
	}
}

// delayed lets first attempts wait for their phase.
func delayed(period time.Duration) func(*v1.Pod, *v1.Container, prober.Type, prober.Timing) prober.Timing {
	return func(_ *v1.Pod, _ *v1.Container, _ prober.Type, t prober.Timing) prober.Timing {
		t.InitialDelay, t.Period = period, period
		return t
	}
}

func newBenchProber(b *testing.B, o prober.Options) *prober.Prober {
	b.Helper()
	p, err := prober.New(o)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkIdleMemory measures the memory of 10,000 waiting probes beyond their pods (goal: at most 4 MB and 100
// goroutines): with one probe per container, the most expensive case, with two, and in the kubelet's shape, a goroutine
// and a ticker for each.
func BenchmarkIdleMemory(b *testing.B) {
	const probes = 10_000
	for _, perContainer := range []int{1, 2} {
		b.Run(fmt.Sprintf("keelson/perContainer=%d", perContainer), func(b *testing.B) {
			all := newSubjects(probes, perContainer, 3600)
			for b.Loop() {
				p := newBenchProber(b, prober.Options{Handler: prober.HandlerFunc(answer), Tune: delayed(time.Hour)})
				before, goroutines := footprint()
				stop := run(b, p)
				all.start(p, time.Hour)
				reportFootprint(b, probes, before, goroutines)
				stop()
			}
			goruntime.KeepAlive(all)
		})
	}
	b.Run("kubelet", func(b *testing.B) {
		for b.Loop() {
			before, goroutines := footprint()
			shape := newTickers(probes, time.Hour, func(int, time.Time) {})
			reportFootprint(b, probes, before, goroutines)
			shape.stop()
		}
	})
}

func reportFootprint(b *testing.B, probes int, before int64, goroutines int) {
	time.Sleep(10 * time.Millisecond)
	after, now := footprint()
	b.ReportMetric(float64(after-before)/float64(probes), "B/probe")
	b.ReportMetric(float64(after-before)/1e6, "MB")
	b.ReportMetric(float64(now-goroutines), "goroutines")
}

// footprint returns the bytes of heap and stacks in use, and the number of goroutines.
func footprint() (bytes int64, goroutines int) {
	goruntime.GC()
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse), goruntime.NumGoroutine()
}

// tickers is the kubelet's shape: a goroutine and a ticker per probe. It does nothing else, so the result is a lower
// bound for the kubelet.
type tickers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newTickers(probes int, period time.Duration, probe func(i int, due time.Time)) *tickers {
	ctx, cancel := context.WithCancel(context.Background())
	s := &tickers{cancel: cancel}
	for i := range probes {
		s.wg.Go(func() {
			first := time.NewTimer(period * time.Duration(i) / time.Duration(probes))
			select {
			case <-first.C:
			case <-ctx.Done():
				return
			}
			ticker := time.NewTicker(period)
			defer ticker.Stop()
			for {
				select {
				case due := <-ticker.C:
					probe(i, due)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return s
}

func (s *tickers) stop() {
	s.cancel()
	s.wg.Wait()
}

// BenchmarkSchedule measures 10,000 empty attempts per second (goal: at most 15 % of a core), beside a ticker each. A
// lap is two seconds.
func BenchmarkSchedule(b *testing.B) {
	const probes, lap = 10_000, 2 * time.Second
	b.Run("keelson", func(b *testing.B) {
		var made atomic.Int64
		p := newBenchProber(b, prober.Options{Tune: delayed(time.Second), Handler: prober.HandlerFunc(
			func(context.Context, prober.Target) (prober.Outcome, error) {
				made.Add(1)
				return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
			})})
		stop := run(b, p)
		newSubjects(probes, 1, 1).start(p, time.Second)
		measureLoad(b, lap, &made)
		stop()
	})
	b.Run("kubelet", func(b *testing.B) {
		var made atomic.Int64
		shape := newTickers(probes, time.Second, func(int, time.Time) {
			// The minimal context of any attempt.
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, _ = answer(ctx, prober.Target{})
			cancel()
			made.Add(1)
		})
		measureLoad(b, lap, &made)
		shape.stop()
	})
}

func measureLoad(b *testing.B, lap time.Duration, made *atomic.Int64) {
	time.Sleep(1200 * time.Millisecond)
	b.ReportAllocs()
	attempts, began, used := made.Load(), time.Now(), cpuTime(b)
	for b.Loop() {
		time.Sleep(lap)
	}
	elapsed := time.Since(began)
	b.ReportMetric(100*float64(cpuTime(b)-used)/float64(elapsed), "core-%")
	b.ReportMetric(float64(made.Load()-attempts)/elapsed.Seconds(), "attempts/s")
}

// cpuTime returns the processor time of the process.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Skip(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkLateness is how long after they are due 1,000 attempts a second begin (goal: p99 at most 20 ms), beside a
// ticker each. A lap is two seconds.
func BenchmarkLateness(b *testing.B) {
	const probes, lap = 1_000, 2 * time.Second
	b.Run("keelson", func(b *testing.B) {
		var late delays
		p := newBenchProber(b, prober.Options{
			Handler: prober.HandlerFunc(answer), Tune: delayed(time.Second),
			OnAttempt: func(a prober.Attempt) { late.add(a.Lateness()) },
		})
		stop := run(b, p)
		newSubjects(probes, 1, 1).start(p, time.Second)
		for b.Loop() {
			time.Sleep(lap)
		}
		stop()
		late.report(b)
	})
	b.Run("kubelet", func(b *testing.B) {
		var late delays
		shape := newTickers(probes, time.Second, func(_ int, due time.Time) { late.add(time.Since(due)) })
		for b.Loop() {
			time.Sleep(lap)
		}
		shape.stop()
		late.report(b)
	})
}

// BenchmarkHungNeighbours is the lateness of 5,000 healthy probes per second beside 5,000 probes that hang until their
// timeout of a second (goal: p99 at most 100 ms at 100 goroutines besides the hanging ones), beside a ticker each. A
// lap is two seconds.
func BenchmarkHungNeighbours(b *testing.B) {
	const probes, lap = 10_000, 2 * time.Second
	hangs := func(i int) bool { return i%2 == 1 }
	hang := func(ctx context.Context, hostages *atomic.Int64) {
		hostages.Add(1)
		defer hostages.Add(-1)
		<-ctx.Done()
	}
	b.Run("keelson", func(b *testing.B) {
		var late delays
		var hostages atomic.Int64
		all := newSubjects(probes, 1, 1)
		for i, pod := range all.pods {
			if hangs(i) {
				pod.Spec.Containers[0].Image = "hangs"
				pod.Spec.Containers[0].LivenessProbe.FailureThreshold = 1 << 30
			}
		}
		p := newBenchProber(b, prober.Options{Tune: delayed(time.Second), Handler: prober.HandlerFunc(
			func(ctx context.Context, t prober.Target) (prober.Outcome, error) {
				if t.Container.Image != "hangs" {
					return answer(ctx, t)
				}
				hang(ctx, &hostages)
				return prober.Outcome{}, ctx.Err()
			}), OnAttempt: func(a prober.Attempt) {
			if a.Target.Container.Image != "hangs" {
				late.add(a.Lateness())
			}
		}})
		before := int64(goruntime.NumGoroutine())
		stop := run(b, p)
		all.start(p, time.Second)
		most := watchGoroutines(b, lap, before, &hostages)
		stop()
		late.report(b)
		b.ReportMetric(float64(most), "goroutines")
	})
	b.Run("kubelet", func(b *testing.B) {
		var late delays
		var hostages atomic.Int64
		before := int64(goruntime.NumGoroutine())
		shape := newTickers(probes, time.Second, func(i int, due time.Time) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if hangs(i) {
				hang(ctx, &hostages)
				return
			}
			late.add(time.Since(due))
		})
		most := watchGoroutines(b, lap, before, &hostages)
		shape.stop()
		late.report(b)
		b.ReportMetric(float64(most), "goroutines")
	})
}

// watchGoroutines lets the laps pass and returns how many goroutines there were at most, beside the hostages.
func watchGoroutines(b *testing.B, lap time.Duration, before int64, hostages *atomic.Int64) (most int64) {
	time.Sleep(1200 * time.Millisecond)
	for b.Loop() {
		for end := time.Now().Add(lap); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			most = max(most, int64(goruntime.NumGoroutine())-hostages.Load()-before)
		}
	}
	return most
}

// delays collects times.
type delays struct {
	mu  sync.Mutex
	all []time.Duration
}

func (d *delays) add(one time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, one)
}

func (d *delays) report(b *testing.B) {
	slices.Sort(d.all)
	if len(d.all) > 0 {
		b.ReportMetric(float64(d.all[len(d.all)/2]), "median-ns")
		b.ReportMetric(float64(d.all[len(d.all)*99/100]), "p99-ns")
	}
}

// BenchmarkStartToAttempt measures the time from Start to the handler, among 10,000 waiting probes.
func BenchmarkStartToAttempt(b *testing.B) {
	asked := make(chan time.Time)
	p := newBenchProber(b, prober.Options{Handler: prober.HandlerFunc(
		func(context.Context, prober.Target) (prober.Outcome, error) {
			asked <- time.Now()
			return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
		})})
	stop := run(b, p)
	pods := manyPods(10_000, func(c *v1.Container) { c.LivenessProbe = every(3600); c.LivenessProbe.InitialDelaySeconds = 3600 })
	for i, pod := range pods {
		p.Start(pod, "c", now(fmt.Sprint(i)))
	}
	pod := podOf("web", v1.Container{Name: "c", LivenessProbe: every(3600)})
	var times delays
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		began := time.Now()
		p.Start(pod, "c", prober.Instance{ID: fmt.Sprint("web-", n), StartedAt: began})
		times.add((<-asked).Sub(began))
	}
	times.report(b)
	stop()
}

// BenchmarkStopToCancel is from Stop to the end of the attempt's context (goal: at most 5 ms), among 10,000 probes that
// wait; floor is a plain cancel.
func BenchmarkStopToCancel(b *testing.B) {
	b.Run("keelson", func(b *testing.B) {
		asked, cancelled := make(chan struct{}), make(chan time.Time)
		p := newBenchProber(b, prober.Options{Handler: prober.HandlerFunc(
			func(ctx context.Context, _ prober.Target) (prober.Outcome, error) {
				asked <- struct{}{}
				<-ctx.Done()
				cancelled <- time.Now()
				return prober.Outcome{}, ctx.Err()
			})})
		stop := run(b, p)
		pods := manyPods(10_000, func(c *v1.Container) { c.LivenessProbe = every(3600); c.LivenessProbe.InitialDelaySeconds = 3600 })
		for i, pod := range pods {
			p.Start(pod, "c", now(fmt.Sprint(i)))
		}
		probe := every(3600)
		probe.TimeoutSeconds = 3600
		pod := podOf("web", v1.Container{Name: "c", LivenessProbe: probe})
		var times delays
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			id := fmt.Sprint("web-", n)
			p.Start(pod, "c", now(id))
			<-asked
			began := time.Now()
			p.Stop(id, prober.All)
			times.add((<-cancelled).Sub(began))
		}
		times.report(b)
		stop()
	})
	b.Run("floor", func(b *testing.B) {
		var times delays
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			cancelled := make(chan time.Time)
			go func() { <-ctx.Done(); cancelled <- time.Now() }()
			goruntime.Gosched()
			began := time.Now()
			cancel()
			times.add((<-cancelled).Sub(began))
		}
		times.report(b)
	})
}

// BenchmarkAddPod is a sync of a pod with three probes that finds nothing new.
func BenchmarkAddPod(b *testing.B) {
	p := newBenchProber(b, prober.Options{Handler: prober.HandlerFunc(answer)})
	c := v1.Container{Name: "c", StartupProbe: every(3600), LivenessProbe: every(3600), ReadinessProbe: every(3600)}
	pods := []*v1.Pod{podOf("web", c), podOf("web", *c.DeepCopy())}
	running := map[string]prober.Instance{"c": now("c1")}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		p.AddPod(pods[n%2], running)
	}
}
