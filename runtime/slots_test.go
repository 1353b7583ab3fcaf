// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
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
