// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

var start = time.Unix(1000, 0)

// recordOf returns the record of a pod that is in its first SyncPod call.
func recordOf(t *testing.T) record {
	t.Helper()
	u := Update{Type: UpdateCreate, Pod: testPod("a")}
	r := newRecord(u, "", start)
	r.move(eventStart, start)
	require.NoError(t, r.absorb(u, start))
	require.Equal(t, callSyncPod, r.begin().kind)
	return r
}

func TestRecordIsNotDueDuringACall(t *testing.T) {
	r := recordOf(t)
	require.False(t, r.due())
	require.NoError(t, r.apply(Update{Pod: testPod("a")}, start))
	require.False(t, r.due(), "one call at a time")
	require.Equal(t, fateKeep, r.settle(result{delay: time.Minute}, start))
	require.True(t, r.due())
	require.Zero(t, r.retryAt, "due now, so nothing is planned")
}

func TestRecordWakesWhenItsTimeHasCome(t *testing.T) {
	r := recordOf(t)
	r.settle(result{delay: time.Minute}, start)
	require.False(t, r.due())
	require.False(t, r.wake(start.Add(time.Minute-1)), "a stale timer")
	require.False(t, r.due())
	require.True(t, r.wake(start.Add(time.Minute)))
	require.True(t, r.due())
	require.False(t, r.wake(start.Add(time.Hour)), "once")
}

func TestRecordCountsFailuresPerState(t *testing.T) {
	r := recordOf(t)
	broken := errors.New("broken")
	for n := range 3 {
		r.settle(result{err: broken, delay: time.Second}, start)
		require.Equal(t, n+1, r.attempt)
		require.True(t, r.wake(start.Add(time.Second)))
		require.Equal(t, n+1, r.begin().request.Attempt)
	}
	r.settle(result{err: broken, delay: time.Second, interrupted: true}, start)
	require.Equal(t, 3, r.attempt, "an interrupted call is no failure")
	require.NoError(t, r.apply(Update{Type: UpdateKill, Pod: testPod("a")}, start))
	require.Equal(t, 0, r.begin().request.Attempt, "a new state")
	require.NoError(t, r.lastErr)
	r.settle(result{err: broken, delay: time.Second}, start)
	require.ErrorIs(t, r.lastErr, broken)
}

// TestFinishedRecordPinsNoPod: a tombstone may stay for as long as the pod is configured.
func TestFinishedRecordPinsNoPod(t *testing.T) {
	r := recordOf(t)
	r.settle(result{terminal: true}, start)
	for _, kind := range []callKind{callTerminatingPod, callTerminatedPod} {
		require.Equal(t, kind, r.begin().kind)
		r.settle(result{}, start)
	}
	require.Equal(t, phaseFinished, r.phase)
	status := func(*v1.PodStatus) {}
	for typ := UpdateSync; typ <= UpdateKill; typ++ {
		u := Update{Type: typ, Pod: testPod("a"), MirrorPod: testPod("m")}
		if typ == UpdateKill {
			u.Kill = &KillOptions{Status: status}
		}
		require.NoError(t, r.apply(u, start))
	}
	require.False(t, r.due())
	assert.Nil(t, r.pod)
	assert.Nil(t, r.mirror)
	assert.Nil(t, r.status)
	assert.True(t, r.info(false).HasConfig)
	assert.True(t, r.restart)
}

// TestRecordKeepsOrphan: the caller may reuse what it passed in.
func TestRecordKeepsOrphan(t *testing.T) {
	o := &Orphan{UID: "a", Name: "x"}
	u := Update{Type: UpdateKill, Orphan: o}
	r := newRecord(u, "", start)
	require.NoError(t, r.absorb(u, start))
	o.Name = "y"
	require.Equal(t, "x", r.begin().orphan.Name)
	require.Equal(t, fateForget, r.settle(result{}, start))
}

// TestStatusFunctionsOfACallAreItsOwn: one that arrives during a call is not seen by that call.
func TestStatusFunctionsOfACallAreItsOwn(t *testing.T) {
	r := recordOf(t)
	var ran []int
	kill := func(n int) Update {
		return Update{Type: UpdateKill, Pod: testPod("a"), Kill: &KillOptions{Status: func(*v1.PodStatus) { ran = append(ran, n) }}}
	}
	require.ErrorIs(t, r.apply(kill(1), start), ErrTerminationRequested)
	r.settle(result{err: errors.New("cancelled"), interrupted: true}, start)
	first := r.begin()
	require.NoError(t, r.apply(kill(2), start))
	first.terminating().ApplyStatus(nil)
	require.Equal(t, []int{1}, ran)
	r.settle(result{err: errors.New("x")}, start)
	second := r.begin()
	second.terminating().ApplyStatus(nil)
	require.Equal(t, []int{1, 1, 2}, ran)
}
