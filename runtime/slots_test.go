// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlotsServeContainersFirstAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		release, err := s.acquire(t.Context(), slotSandbox)
		require.NoError(t, err)
		var mu sync.Mutex
		var order []string
		wait := func(name string, class slotClass) {
			go func() {
				release, err := s.acquire(t.Context(), class)
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				release()
			}()
			synctest.Wait()
		}
		wait("sandbox 1", slotSandbox)
		wait("container 1", slotContainer)
		wait("sandbox 2", slotSandbox)
		wait("container 2", slotContainer)
		release()
		release() // once is enough
		synctest.Wait()
		require.Equal(t, []string{"container 1", "container 2", "sandbox 1", "sandbox 2"}, order)
	})
}

func TestSlotsOfThoseWhoGiveUpAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		why := errors.New("the pod was deleted")
		for range 1000 {
			ctx, cancel := context.WithCancelCause(t.Context())
			a, err := s.acquire(t.Context(), slotSandbox)
			require.NoError(t, err)
			b, err := s.acquire(t.Context(), slotSandbox)
			require.NoError(t, err)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					release, err := s.acquire(ctx, slotContainer)
					if err == nil {
						release()
						return
					}
					require.ErrorIs(t, err, why)
				})
			}
			wg.Go(a)
			wg.Go(func() { cancel(why) })
			wg.Go(b)
			wg.Wait()
			cancel(nil)
		}
		require.Equal(t, 2, s.mu.free)
	})
}

func TestSlotsComeBackFromStartsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		release, err := s.acquire(t.Context(), slotSandbox)
		require.NoError(t, err)
		began := time.Now()
		other, err := s.acquire(t.Context(), slotSandbox)
		require.NoError(t, err)
		require.Equal(t, slotPatience, time.Since(began))
		release()
		require.Zero(t, s.mu.free, "it was given back before")
		other()
		require.Equal(t, 1, s.mu.free)
	})
}

// A slot goes to the next waiting start, not to one that has given up.
func TestSlotOfTheNextInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		release, err := s.acquire(t.Context(), slotContainer)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() {
			_, err := s.acquire(ctx, slotContainer)
			gaveUp <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		release()
		require.Equal(t, 1, s.mu.free)
	})
}

// A slot that is given to a start at the instant in which the start gives up is passed on.
func TestSlotForOneThatGivesUp(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			s := newSlots(1)
			release, err := s.acquire(t.Context(), slotContainer)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if release, err := s.acquire(ctx, slotContainer); err == nil {
					release()
				}
			}()
			synctest.Wait()
			cancel()
			release()
			synctest.Wait()
			require.Equal(t, 1, s.mu.free)
		})
	}
}

// A pull that its last caller has given up is not joined while it ends.
func TestAPullThatIsGivenUpIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, key := newFlights(2), flight{image: "a"}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		first := make(chan error)
		go func() {
			_, _, err := f.do(ctx, key, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return "", ctx.Err()
			})
			first <- err
		}()
		time.Sleep(1500 * time.Millisecond)
		id, took, err := f.do(t.Context(), key, func(context.Context) (string, error) {
			time.Sleep(time.Minute)
			return "new", nil
		})
		require.NoError(t, err)
		require.Equal(t, "new", id)
		require.Equal(t, time.Minute, took)
		require.ErrorIs(t, <-first, context.Canceled)
	})
}

// Without a number of starts, there are four per processor.
func TestStartsPerProcessor(t *testing.T) {
	m, err := New(Options{Runtime: struct{ Runtime }{}, Generator: struct{ Generator }{}})
	require.NoError(t, err)
	require.Equal(t, 4*goruntime.GOMAXPROCS(0), m.slots.mu.free)
}

// The time between two listings is 200 times that of a listing, within bounds.
func TestPaceOfListings(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 200 * time.Millisecond, time.Millisecond: 200 * time.Millisecond, 3 * time.Millisecond: 600 * time.Millisecond,
		time.Second: time.Second,
	} {
		require.Equal(t, want, (&Tracker{}).pace(took), took)
	}
	require.Equal(t, time.Minute, (&Tracker{interval: time.Minute}).pace(time.Second))
}

// Pulls of an image with several credentials are one entry, with the earliest times.
func TestPullsOfOneImageAreOneEntry(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	for range 50 { // in any order
		f := newFlights(1)
		f.mu.byKey[flight{image: "a", auth: ImageAuth{Username: "waits"}}] = &inFlight{asked: at(1)}
		f.mu.byKey[flight{image: "a", auth: ImageAuth{Username: "first"}}] = &inFlight{asked: at(2), began: at(3)}
		f.mu.byKey[flight{image: "a", auth: ImageAuth{Username: "second"}}] = &inFlight{asked: at(4), began: at(5)}
		f.mu.byKey[flight{image: "b"}] = &inFlight{asked: at(6)}
		require.Equal(t, []Pull{{Image: "a", Asked: at(1), Began: at(3)}, {Image: "b", Asked: at(6)}}, f.list())
	}
}

// A pull that has ended is not joined: the image may have been removed since.
func TestAPullThatHasEndedIsNotJoined(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			f, key := newFlights(2), flight{image: "a"}
			pull := func(id string) string {
				id, _, err := f.do(t.Context(), key, func(context.Context) (string, error) {
					time.Sleep(time.Second)
					return id, nil
				})
				require.NoError(t, err)
				return id
			}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					require.Equal(t, "old", pull("old"))
					require.Equal(t, "new", pull("new"))
				})
			}
			wg.Wait()
		})
	}
}

// After a success the delay of pulls begins afresh.
func TestPullBackoffAfterASuccess(t *testing.T) {
	b, at := newPullBackoff(), func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	for _, failed := range []int64{0, 10} {
		b.failed("u", "a", errors.New("401"), at(failed))
	}
	next, _ := b.wait("u", "a", at(20))
	require.Equal(t, at(30), next)
	b.succeeded("u", "a")
	next, _ = b.wait("u", "a", at(20))
	require.Zero(t, next)
	b.failed("u", "a", errors.New("401"), at(40))
	next, err := b.wait("u", "a", at(40))
	require.Equal(t, at(50), next)
	require.EqualError(t, err, "401")
}
