// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
)

// TestDeterministic: the loop has the seeds in order, and under command dst an interleaving is a
// function of the seed.
func TestDeterministic(t *testing.T) {
	_, ordered := os.LookupEnv("DST_SEED")
	var seeds []uint64
	orders := make(map[string]bool)
	for seed := range nodetest.Deterministic(t, 7, 5) {
		seeds = append(seeds, seed)
		first := arrivals(t)
		if ordered {
			require.Equal(t, first, arrivals(t), "seed %d", seed)
		}
		orders[first] = true
	}
	require.Equal(t, []uint64{7, 8, 9, 10, 11}, seeds)
	if ordered {
		require.Greater(t, len(orders), 1, "every seed is the same order")
	}
}

// arrivals returns the order in which ten goroutines run that become runnable at an instant.
func arrivals(t *testing.T) (order string) {
	synctest.Test(t, func(*testing.T) {
		ready, start := make(chan int, 10), make(chan struct{})
		for i := range 10 {
			go func() {
				<-start
				ready <- i
			}()
		}
		synctest.Wait()
		close(start)
		for range 10 {
			order += fmt.Sprint(<-ready, " ")
		}
	})
	return order
}

// TestJournalIsEqualInASecondRun: under command dst, a schedule has a single journal for each seed,
// also after other schedules of the same process.
func TestJournalIsEqualInASecondRun(t *testing.T) {
	_, ordered := os.LookupEnv("DST_SEED")
	for seed := range nodetest.Deterministic(t, 1, 4) {
		script := nodetest.Schedule(seed)
		first, second := nodetest.Play(t, script), nodetest.Play(t, script)
		require.NoError(t, first.Err, "%s", first.Journal)
		require.NotEmpty(t, first.Journal)
		if ordered {
			require.Equal(t, first.Journal, second.Journal, "seed %d", seed)
		}
	}
}
