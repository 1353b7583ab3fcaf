// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/prober"
)

// hospital is a handler whose containers of image "hangs" do not answer. The deaf containers do not answer even when
// their context ends.
type hospital struct {
	takes  time.Duration // of the others
	deaf   bool
	closed chan struct{} // ends all

	mu       sync.Mutex
	hostages int
	late     []time.Duration // of the others' attempts
}

func (h *hospital) Probe(ctx context.Context, t prober.Target) (prober.Outcome, error) {
	if t.Container.Image != "hangs" {
		time.Sleep(h.takes)
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	}
	h.hold(1)
	defer h.hold(-1)
	if h.deaf {
		<-h.closed
		return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
	}
	<-ctx.Done()
	return prober.Outcome{}, ctx.Err()
}

func (h *hospital) hold(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hostages += n
}

// others returns the number of goroutines beside the hostages when all goroutines are at rest. Before that, a goroutine
// may not have become a hostage yet, or may have been one.
func (h *hospital) others() int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return goruntime.NumGoroutine() - h.hostages
}

func (h *hospital) attempted(a prober.Attempt) {
	if a.Target.Container.Image != "hangs" {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.late = append(h.late, a.Lateness())
	}
}

// TestHungProbesDelayNoOthers: of 10,000 probes, or 1,000 under the race detector, half hang, with handlers that return
// when their context ends and with handlers that never return, from the first attempt on or only later. The other half
// is on time, and needs no more goroutines than places.
func TestHungProbesDelayNoOthers(t *testing.T) {
	const laps = 5
	probes := casetest.Rounds(10_000)
	alternating, first := func(i int) bool { return i%2 == 0 }, func(i int) bool { return i < probes/2 }
	for _, tc := range []struct {
		name    string
		probe   func(period int32) *v1.Probe
		timeout int32
		deaf    bool
		hangs   func(i int) bool
	}{
		{"network that hangs longer than its period", every, 30, false, alternating},
		{"exec that times out in each period", everyExec, 1, false, first},
		{"network that never returns", every, 1, true, alternating},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := goruntime.NumGoroutine()
				h := &hospital{takes: 2 * time.Millisecond, deaf: tc.deaf, closed: make(chan struct{})}
				p, err := prober.New(prober.Options{Handler: h, OnAttempt: h.attempted})
				require.NoError(t, err)
				stop := run(t, p)
				for i, pod := range manyPods(probes, func(c *v1.Container) {
					c.LivenessProbe = tc.probe(1)
					c.LivenessProbe.TimeoutSeconds, c.LivenessProbe.FailureThreshold = tc.timeout, 1000
				}) {
					if tc.hangs(i) {
						pod.Spec.Containers[0].Image = "hangs"
					}
					p.Start(pod, "c", now(fmt.Sprint(i)))
					time.Sleep(time.Second / time.Duration(probes))
				}
				most := 0
				for range laps * 1000 {
					time.Sleep(time.Millisecond)
					most = max(most, h.others())
				}
				assert.LessOrEqual(t, h.hostages, probes/2, "a probe that hangs is not asked again")
				close(h.closed)
				stop()
				slices.Sort(h.late)
				require.GreaterOrEqual(t, len(h.late), probes/2*laps, "no attempt was left out")
				assert.LessOrEqual(t, h.late[len(h.late)*99/100], 100*time.Millisecond, "the 99th of 100")
				assert.LessOrEqual(t, h.late[len(h.late)-1], 200*time.Millisecond, "the last, when all is new")
				assert.LessOrEqual(t, most-before, 100)
			})
		})
	}
}

// TestHungProbesOfAllAtOnce: 10,000 probes, or 1,000 under the race detector, are due at one instant, and half of them hang.
func TestHungProbesOfAllAtOnce(t *testing.T) {
	probes := casetest.Rounds(10_000)
	h := &hospital{closed: make(chan struct{})}
	inBubble(t, prober.Options{Handler: h, OnAttempt: h.attempted}, func(t *testing.T, p *prober.Prober, _ func()) {
		for i, pod := range manyPods(probes, func(c *v1.Container) {
			c.LivenessProbe = every(1)
			c.LivenessProbe.TimeoutSeconds = 30
		}) {
			if i < probes/2 {
				pod.Spec.Containers[0].Image = "hangs"
			}
			p.Start(pod, "c", now(fmt.Sprint(i)))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.GreaterOrEqual(t, len(h.late), probes/2*3)
		assert.LessOrEqual(t, slices.Max(h.late), 100*time.Millisecond)
	})
}

// TestHungExecProbesAndOneOfEverySecond: 200 exec probes that hang for 30 s leave a probe of every second alone.
func TestHungExecProbesAndOneOfEverySecond(t *testing.T) {
	h := &hospital{takes: 20 * time.Millisecond}
	inBubble(t, prober.Options{Handler: h, OnAttempt: h.attempted}, func(t *testing.T, p *prober.Prober, _ func()) {
		for i := range 200 {
			c := v1.Container{Name: "c", Image: "hangs", LivenessProbe: everyExec(10)}
			c.LivenessProbe.TimeoutSeconds, c.LivenessProbe.FailureThreshold = 30, 1000
			p.Start(podOf(fmt.Sprint("bad-", i), c), "c", now(fmt.Sprint("bad-", i)))
		}
		p.Start(podOf("good", v1.Container{Name: "c", LivenessProbe: everyExec(1)}), "c", now("good"))
		time.Sleep(10*time.Minute + time.Second/2)
		synctest.Wait()
		require.Len(t, h.late, 601)
		assert.LessOrEqual(t, slices.Max(h.late), 100*time.Millisecond)
	})
}

// TestHandlerThatDoesNotReturn: its attempt fails at the end of its timeout, and again in each further period. The
// result of a late return is dropped.
func TestHandlerThatDoesNotReturn(t *testing.T) {
	var asked atomic.Int32
	var free chan struct{}
	h := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
		if asked.Add(1) == 1 {
			<-free
		}
		return prober.Outcome{Verdict: prober.VerdictSuccess, Output: "well"}, nil
	})
	var mu sync.Mutex // attempts and results come from goroutines of their own
	var journal []string
	var began time.Time
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		journal = append(journal, fmt.Sprintf("%5.1f ", time.Since(began).Seconds())+fmt.Sprintf(format, args...))
	}
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) {
		note("%s %d/%d tries %d since %.0f: %s", a.Verdict, a.Run, a.Threshold, a.Tries, a.Started.Sub(began).Seconds(), a.Output)
	}, Sink: prober.SinkFunc(func(u prober.Update) { note("  %s", u.Result) })}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		free, began = make(chan struct{}), time.Now()
		probe := every(2)
		probe.FailureThreshold = 2
		p.Start(podOf("web", v1.Container{Name: "c", ReadinessProbe: probe}), "c", now("c1"))
		time.Sleep(6500 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, prober.StageRunning, p.Snapshot()[0].Stage)
		assert.Equal(t, began, p.Snapshot()[0].Due)
		close(free)
		time.Sleep(4 * time.Second)
		synctest.Wait()
	})
	slices.Sort(journal) // an attempt and its result, of the same instant, come in any order
	assert.Equal(t, []string{
		"  1.1 failure 1/2 tries 0 since 0: timed out after 1s",
		"  3.1 failure 2/2 tries 0 since 0: timed out after 1s",
		"  5.1 failure 3/2 tries 0 since 0: timed out after 1s",
		"  6.5   Success",
		"  6.5 success 1/1 tries 1 since 6: well",
		"  8.0 success 2/1 tries 1 since 8: well",
		" 10.0 success 3/1 tries 1 since 10: well",
	}, journal)
}

// TestHandlerThatDoesNotReturnKills: liveness fails although its handler does not return. A late result affects neither
// the present instance nor the next.
func TestHandlerThatDoesNotReturnKills(t *testing.T) {
	h := &hospital{deaf: true}
	var told []string
	o := prober.Options{Handler: h, Sink: prober.SinkFunc(func(u prober.Update) { told = append(told, u.ID+" "+u.Result.String()) })}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, stop func()) {
		h.closed = make(chan struct{})
		pod := podOf("web", v1.Container{Name: "c", Image: "hangs", LivenessProbe: every(1)})
		for i := range 5 {
			p.Start(pod, "c", now(fmt.Sprint("c", i)))
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		assert.Equal(t, 2, h.hostages, "no more than two are out for a container and a kind")
		assert.Equal(t, []string{"c0 Failure", "c1 Failure"}, told)
		close(h.closed)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Zero(t, h.hostages)
		r, _ := p.Result("c4", prober.Liveness)
		assert.Equal(t, prober.Success, r, "it is asked again now")
		assert.Greater(t, p.Snapshot()[0].Run, 3)
		assert.Equal(t, prober.StageWaiting, p.Snapshot()[0].Stage)
	})
}

// TestCrowdedIsNoVerdict: an attempt that is not made says so, once, and is counted as an error.
func TestCrowdedIsNoVerdict(t *testing.T) {
	h := &hospital{deaf: true}
	var errs []error
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) { errs = append(errs, a.Err) }}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		h.closed = make(chan struct{})
		defer close(h.closed)
		pod := podOf("web", v1.Container{Name: "c", Image: "hangs", ReadinessProbe: every(10)})
		for i := range 3 {
			p.Start(pod, "c", now(fmt.Sprint("c", i)))
			synctest.Wait()
		}
		require.Len(t, errs, 1)
		assert.ErrorContains(t, errs[0], "has not returned from earlier attempts")
		s := p.Snapshot()[0]
		assert.Equal(t, []int{1, 1, 0}, []int{s.Errors, s.Errored, s.Run})
		assert.Equal(t, prober.StageWaiting, s.Stage)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, p.Snapshot()[0].Errored, "and is tried again in the next period")
	})
}

// TestLateSuccessIsAFailure: an attempt past its deadline is a failure, whatever the handler returns.
func TestLateSuccessIsAFailure(t *testing.T) {
	for _, tc := range []struct {
		name  string
		takes time.Duration
		out   prober.Outcome
		err   error
		want  prober.Outcome
	}{
		{"in time", time.Second - 1, prober.Outcome{Verdict: prober.VerdictWarning, Output: "hm"}, nil, prober.Outcome{Verdict: prober.VerdictWarning, Output: "hm"}},
		{"too late", time.Second, prober.Outcome{Verdict: prober.VerdictSuccess, Output: "well"}, nil, prober.Outcome{Verdict: prober.VerdictFailure, Output: "timed out after 1s"}},
		{"a little later", time.Second + 99*time.Millisecond, prober.Outcome{Verdict: prober.VerdictWarning}, nil, prober.Outcome{Verdict: prober.VerdictFailure, Output: "timed out after 1s"}},
		{"four times the timeout", 4 * time.Second, prober.Outcome{Verdict: prober.VerdictSuccess}, nil, prober.Outcome{Verdict: prober.VerdictFailure, Output: "timed out after 1s"}},
		{"an error", time.Second, prober.Outcome{}, errors.New("cut off"), prober.Outcome{Verdict: prober.VerdictFailure, Output: "timed out after 1s"}},
		{"a failure in its own words", time.Second, prober.Outcome{Verdict: prober.VerdictFailure, Output: "no answer"}, nil, prober.Outcome{Verdict: prober.VerdictFailure, Output: "no answer"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
				time.Sleep(tc.takes)
				return tc.out, tc.err
			})
			var got []prober.Attempt
			o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) { got = append(got, a) }}
			inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
				p.Start(podOf("web", v1.Container{Name: "c", LivenessProbe: every(60)}), "c", now("c1"))
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.Len(t, got, 1)
				assert.Equal(t, tc.want, prober.Outcome{Verdict: got[0].Verdict, Output: got[0].Output})
				assert.NoError(t, got[0].Err)
				assert.Equal(t, prober.StageWaiting, p.Snapshot()[0].Stage)
			})
		})
	}
}

// TestUnknownVerdictIsNone: an undefined verdict publishes nothing.
func TestUnknownVerdictIsNone(t *testing.T) {
	h := prober.HandlerFunc(func(context.Context, prober.Target) (prober.Outcome, error) {
		return prober.Outcome{Verdict: 9, Output: "?"}, nil
	})
	var got prober.Attempt
	o := prober.Options{Handler: h, OnAttempt: func(a prober.Attempt) { got = a }}
	inBubble(t, o, func(t *testing.T, p *prober.Prober, _ func()) {
		p.Start(podOf("web", v1.Container{Name: "c", LivenessProbe: every(1)}), "c", now("c1"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.ErrorContains(t, got.Err, "a verdict that does not exist: 9")
		assert.Equal(t, prober.Outcome{}, prober.Outcome{Verdict: got.Verdict, Output: got.Output})
		r, _ := p.Result("c1", prober.Liveness)
		assert.Equal(t, prober.Success, r)
	})
}
