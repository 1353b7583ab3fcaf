// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
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

// After the start and after a failed call, the time between two audits doubles up to ten minutes. After a
// failed audit, each pass audits.
func TestAuditsAreRareWithoutFailures(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		a := &audited{Runtime: n.rt}
		n.over(a)
		require.Equal(t, 5, n.passes(a, 10), "minutes 0, 1, 2, 4 and 8 after the start")
		require.Equal(t, 5, n.passes(a, 50), "minute 16, and every ten minutes")
		pod := newPod()
		n.fates[pod.UID] = runtime.PodLives
		n.mustSync(pod)
		r, _ := n.kill(pod)
		require.NoError(t, r.Err())
		require.Equal(t, 1, n.passes(a, 10), "calls without an error")

		_, err := n.rt.Inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Times: 1, Err: errors.New("no answer")})
		require.NoError(t, err)
		failed := n.sync(newPod())
		require.Error(t, failed.Err())
		require.Equal(t, 5, n.passes(a, 10), "minutes 0, 1, 2, 4 and 8 after the failure")
		require.Equal(t, 1, n.passes(a, 10))

		a.err = errors.New("no answer")
		time.Sleep(time.Hour)
		require.Equal(t, 5, n.passes(a, 5), "after an error, the next pass tries again")
	})
}
