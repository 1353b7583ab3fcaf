// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRule1OneCallPerUID lets the calls of two pods meet, which would fail if a lock were held during a call. A counter
// without a lock proves, with the race detector, that calls for one pod happen one after the other.
func TestRule1OneCallPerUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meeting := make(chan struct{})
		calls := map[types.UID]*int{"a": new(int), "b": new(int)}
		var w *Workers
		syncer := &funcSyncer{sync: func(_ context.Context, r SyncRequest) (Outcome, error) {
			*calls[r.Pod.UID]++
			if r.Type == UpdateCreate {
				select {
				case meeting <- struct{}{}:
				case <-meeting:
				}
			}
			w.CouldHaveRunningContainers(r.Pod.UID) // Would deadlock under the lock.
			time.Sleep(time.Second)
			return Outcome{}, nil
		}}
		var stop func()
		w, stop = runWorkers(t, Options{Syncer: syncer, OnSync: func(e SyncEvent) { w.Info(e.UID) }})
		defer stop()
		for _, uid := range []types.UID{"a", "b"} {
			require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: testPod(uid)}))
		}
		for range 50 {
			for _, uid := range []types.UID{"a", "b"} {
				require.NoError(t, w.UpdatePod(Update{Pod: testPod(uid)}))
			}
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Greater(t, *calls["a"], 10)
		assert.Greater(t, *calls["b"], 10)
	})
}

// TestRule3OldestReceivedIsReported pins the input of the latency metric.
func TestRule3OldestReceivedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []SyncEvent
		syncer := &funcSyncer{sync: func(context.Context, SyncRequest) (Outcome, error) {
			time.Sleep(10 * time.Second)
			return Outcome{}, nil
		}}
		w, stop := runWorkers(t, Options{Syncer: syncer, OnSync: func(e SyncEvent) { events = append(events, e) }})
		defer stop()
		began := time.Now()
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		send(t, w, Update{Pod: testPod("a"), Received: began.Add(-time.Hour)})
		send(t, w, Update{Pod: testPod("a"), Received: began.Add(-2 * time.Hour)})
		send(t, w, Update{Pod: testPod("a")})
		time.Sleep(90 * time.Second)
		synctest.Wait()
		require.Len(t, events, 3)
		assert.Equal(t, began, events[0].Received, "the time of UpdatePod, if none is given")
		assert.Equal(t, began.Add(-2*time.Hour), events[1].Received, "the oldest")
		assert.Zero(t, events[2].Received, "nobody asked for a resync")
		assert.Equal(t, SyncEvent{
			UID: "a", Pod: events[0].Pod, State: StateSync, Type: UpdateCreate,
			Received: began, Started: began, Ended: began.Add(10 * time.Second),
		}, events[0])
	})
}

// TestRule4Causes checks the cause of an interrupted call.
func TestRule4Causes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var causes []error
		wait := func(ctx context.Context) error {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		}
		syncer := &funcSyncer{
			sync:        func(ctx context.Context, _ SyncRequest) (Outcome, error) { return Outcome{}, wait(ctx) },
			terminating: func(ctx context.Context, r TerminatingRequest) error { return wait(ctx) },
		}
		w, stop := runWorkers(t, Options{Syncer: syncer})
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		send(t, w, Update{Type: UpdateUpdate, Pod: testPod("a", beingDeleted(30))})
		send(t, w, Update{Type: UpdateUpdate, Pod: testPod("a", beingDeleted(5))})
		require.Zero(t, info(t, w, "a").Attempt, "an interrupted call is no failure")
		stop()
		require.Len(t, causes, 3)
		require.ErrorIs(t, causes[0], ErrTerminationRequested)
		require.ErrorIs(t, causes[1], ErrGracePeriodShortened)
		require.ErrorIs(t, causes[2], context.Canceled)
	})
}

// TestRule5ContextEndsWithTheCall also covers Kubernetes 139823 (a context leaked per sync) and 140881 (probes tied to
// the context of another sync): each call has its own context.
func TestRule5ContextEndsWithTheCall(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		var contexts []context.Context
		note := func(ctx context.Context) error {
			if ctx.Err() != nil {
				return errors.New("dead on arrival")
			}
			contexts = append(contexts, ctx)
			return nil
		}
		syncer := &funcSyncer{
			sync:        func(ctx context.Context, _ SyncRequest) (Outcome, error) { return Outcome{}, note(ctx) },
			terminating: func(ctx context.Context, _ TerminatingRequest) error { return note(ctx) },
			terminated:  func(ctx context.Context, _ SyncRequest) error { return note(ctx) },
		}
		w := newWorkers(t, Options{Syncer: syncer})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "run"))
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		send(t, w, Update{Type: UpdateKill, Pod: testPod("a")})
		require.Len(t, contexts, 3)
		for _, ctx := range contexts {
			require.ErrorIs(t, ctx.Err(), context.Canceled, "ended with its call")
			require.Equal(t, "run", ctx.Value(key{}), "descends from Run's")
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestRule6JitterSpreadsAllButRetryAfter checks the argument of Jitter and the use of its result.
func TestRule6JitterSpreadsAllButRetryAfter(t *testing.T) {
	tests := []struct {
		name string
		err  func() error
		want time.Duration
	}{
		{"success", func() error { return nil }, 61 * time.Second},
		{"error", func() error { return errors.New("x") }, 11 * time.Second},
		{"transient", func() error { return fmt.Errorf("x: %w", ErrTransient) }, 2 * time.Second},
		{"retry after", func() error { return RetryAfter(errors.New("x"), time.Now().Add(7*time.Second)) }, 7 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []time.Time
				syncer := &funcSyncer{sync: func(context.Context, SyncRequest) (Outcome, error) {
					calls = append(calls, time.Now())
					return Outcome{}, test.err()
				}}
				w, stop := runWorkers(t, Options{Syncer: syncer, Jitter: func(d time.Duration) time.Duration {
					return d + time.Second
				}})
				send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
				require.Equal(t, test.want, time.Until(info(t, w, "a").NextSync))
				time.Sleep(test.want)
				synctest.Wait()
				stop()
				require.Len(t, calls, 2)
				require.Equal(t, test.want, calls[1].Sub(calls[0]))
			})
		})
	}
}

// TestRule13RunJoinsEverything stops amid calls, timers about to fire and waiting pods; the bubble itself fails if a
// goroutine is left behind.
func TestRule13RunJoinsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inFlight, after atomic.Int32
		var over atomic.Bool
		syncer := &funcSyncer{sync: func(ctx context.Context, r SyncRequest) (Outcome, error) {
			if over.Load() {
				after.Add(1)
			}
			inFlight.Add(1)
			defer inFlight.Add(-1)
			if r.Pod.Name == "slow" {
				<-ctx.Done()
				time.Sleep(time.Minute) // Run has to wait for this.
			}
			return Outcome{}, nil
		}}
		w := newWorkers(t, Options{Syncer: syncer})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // The very moment the resync timers fire.
		defer cancel()
		for i := range 20 {
			uid := types.UID(fmt.Sprint(i))
			require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: testPod(uid)}))
			require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: testPod("w"+uid, static("web"))}))
			require.NoError(t, w.UpdatePod(Update{Type: UpdateCreate, Pod: testPod("s"+uid, named("slow"))}))
		}
		began := time.Now()
		require.NoError(t, w.Run(ctx))
		over.Store(true)
		require.Equal(t, 2*time.Minute, time.Since(began))
		require.Zero(t, inFlight.Load())

		require.ErrorIs(t, w.UpdatePod(Update{Pod: testPod("0")}), ErrStopped)
		require.ErrorIs(t, w.KillPod(t.Context(), testPod("0"), KillOptions{}), ErrStopped)
		require.False(t, closed(w.Terminated("0")))
		w.SyncKnownPods(nil) // Still answers, but begins nothing.
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, after.Load())
		require.ErrorIs(t, w.Run(t.Context()), ErrAlreadyRun)
	})
}

// TestRule13NoNewCallOnceTheContextEnded has an update wait behind the call that is in flight.
func TestRule13NoNewCallOnceTheContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls int
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{sync: func(ctx context.Context, _ SyncRequest) (Outcome, error) {
			calls++
			<-ctx.Done()
			return Outcome{}, nil
		}}})
		send(t, w, Update{Type: UpdateCreate, Pod: testPod("a")})
		send(t, w, Update{Type: UpdateUpdate, Pod: testPod("a")})
		stop()
		require.Equal(t, 1, calls)
	})
}

// TestRule14PanicIsNotRecovered runs itself in a child process and expects the process to die.
func TestRule14PanicIsNotRecovered(t *testing.T) {
	const marker = "KEELSON_PANIC_TEST"
	if os.Getenv(marker) != "" {
		w, err := New(Options{Syncer: &funcSyncer{sync: func(context.Context, SyncRequest) (Outcome, error) {
			panic("the syncer is broken")
		}}})
		require.NoError(t, err)
		require.NoError(t, w.UpdatePod(Update{Pod: testPod("a")}))
		_ = w.Run(t.Context())
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRule14PanicIsNotRecovered$")
	child.Env = append(os.Environ(), marker+"=1")
	out, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "panic: the syncer is broken")
}

// TestRule4ApplyStatusIsNeverNil: ApplyStatus is set even without a status function.
func TestRule4ApplyStatusIsNeverNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status v1.PodStatus
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{terminating: func(_ context.Context, r TerminatingRequest) error {
			r.ApplyStatus(&status)
			return nil
		}}})
		defer stop()
		require.NoError(t, w.KillPod(t.Context(), testPod("a"), KillOptions{}))
		require.Zero(t, status)
	})
}

// Run does not wait for the next calls of idle pods.
func TestRule13RunWaitsForNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{}})
		for _, uid := range []types.UID{"a", "b", "c"} {
			send(t, w, Update{Type: UpdateCreate, Pod: testPod(uid)})
		}
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		require.Zero(t, time.Since(began))
	})
}

// SyncKnownPods cancels the calls of all pods that are not desired, SetPods those of all pods that
// are to end, and StopAll all calls.
func TestAllCallsAreCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *Workers)
		want int32
	}{
		"SyncKnownPods": {func(w *Workers) { w.SyncKnownPods([]*v1.Pod{testPod("d")}) }, 3},
		"Retain":        {func(w *Workers) { w.Retain([]*v1.Pod{testPod("d")}) }, 3},
		"SetPods": {func(w *Workers) {
			_ = w.SetPods([]*v1.Pod{testPod("a", beingDeleted(30)), testPod("b", beingDeleted(30)), testPod("c"), testPod("d")}, true)
		}, 2},
		"StopAll": {func(w *Workers) { go func() { _ = w.StopAll(context.Background()) }() }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cancelled atomic.Int32
				w, stop := runWorkers(t, Options{Syncer: &funcSyncer{sync: func(ctx context.Context, _ SyncRequest) (Outcome, error) {
					<-ctx.Done()
					cancelled.Add(1)
					return Outcome{}, ctx.Err()
				}}})
				defer stop()
				for _, uid := range []types.UID{"a", "b", "c", "d"} {
					send(t, w, Update{Type: UpdateCreate, Pod: testPod(uid)})
				}
				c.end(w)
				synctest.Wait()
				require.Equal(t, c.want, cancelled.Load())
			})
		})
	}
}
