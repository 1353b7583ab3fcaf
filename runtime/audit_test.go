// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

// audited counts the audits of a backend.
type audited struct {
	runtime.Runtime
	audits int
	err    error
}

func (a *audited) Leftovers(context.Context) ([]runtime.Leftover, error) {
	a.audits++
	return nil, a.err
}

func (a *audited) Collect(context.Context, runtime.Leftover) error { return nil }

// passes makes passes of garbage collection, one a minute, and returns the number of audits.
func (n *gcNode) passes(a *audited, passes int) int {
	a.audits = 0
	for range passes {
		err := n.collect()
		if a.err == nil {
			require.NoError(n, err)
		}
		time.Sleep(time.Minute)
	}
	return a.audits
}

// Each pass audits until five minutes after the last changing call and its clean audit. A backend
// without changing calls is audited every ten minutes.
func TestAuditsAreRareWithoutChanges(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		a := &audited{Runtime: n.rt}
		n.over(a)
		require.Equal(t, 6, n.passes(a, 60))
		pod := newPod()
		n.fates[pod.UID] = runtime.PodLives
		n.mustSync(pod)
		require.Equal(t, 6, n.passes(a, 6), "minutes 0 to 5 after the start")
		require.Equal(t, 0, n.passes(a, 9))
		require.Equal(t, 1, n.passes(a, 10))
		r, _ := n.kill(pod)
		require.NoError(t, r.Err())
		require.Equal(t, 3, n.passes(a, 3))
		time.Sleep(time.Hour)
		require.Equal(t, 1, n.passes(a, 5))
		a.err = errors.New("no answer")
		time.Sleep(time.Hour)
		require.Equal(t, 5, n.passes(a, 5), "after an error, the next pass tries again")
	})
}
