// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
)

func TestRule8KeyPassesInOrderOfArrival(t *testing.T) {
	q := keyQueues{}
	require.True(t, q.join("web", "a"))
	require.False(t, q.join("web", "b"))
	require.False(t, q.join("web", "c"))
	require.True(t, q.join("db", "d"), "another key is free")

	next, ok := q.leave("web", "a")
	require.True(t, ok)
	require.Equal(t, types.UID("b"), next)
	_, ok = q.leave("web", "a")
	require.False(t, ok, "leaving twice changes nothing")
	_, ok = q.leave("web", "c")
	require.False(t, ok, "a waiter that leaves passes nothing on")
	_, ok = q.leave("web", "b")
	require.False(t, ok, "nobody waits any more")
	_, ok = q.leave("nothing", "b")
	require.False(t, ok)
	require.Len(t, q, 1, "a free key costs nothing")
}

// TestKeyQueuesAgreeWithModel compares random joins and leaves with one list per key whose head is the holder.
func TestKeyQueuesAgreeWithModel(t *testing.T) {
	for seed := range casetest.Rounds[uint64](2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		q, model := keyQueues{}, map[string][]types.UID{}
		for range 40 {
			key := fmt.Sprint(rng.IntN(2))
			uid := types.UID(fmt.Sprint(rng.IntN(5)))
			line := model[key]
			if rng.IntN(2) == 0 {
				if slices.Contains(line, uid) {
					continue
				}
				model[key] = append(line, uid)
				require.Equal(t, model[key][0] == uid, q.join(key, uid), "seed %d", seed)
				continue
			}
			passes := len(line) > 1 && line[0] == uid
			model[key] = slices.DeleteFunc(line, func(u types.UID) bool { return u == uid })
			next, ok := q.leave(key, uid)
			require.Equal(t, passes, ok, "seed %d", seed)
			if ok {
				require.Equal(t, model[key][0], next, "seed %d", seed)
			}
		}
		for key, line := range model {
			require.Equal(t, len(line) > 0, q[key] != nil, "seed %d", seed)
		}
	}
}
