// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

var start = time.Unix(1000, 0)

// recordOf returns the record of a pod that is in its first SyncPod call.
func recordOf(t *testing.T) record {
	t.Helper()
	u := Update{Type: UpdateCreate, Pod: testPod("a")}
	r := newRecord(u, start)
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
	require.False(t, r.settle(SyncEvent{Ended: start}, pause{delay: time.Minute}))
	require.True(t, r.due())
	require.Zero(t, r.retryAt, "due now, so nothing is planned")
}

func TestRecordWakesWhenItsTimeHasCome(t *testing.T) {
	r := recordOf(t)
	r.settle(SyncEvent{Ended: start}, pause{delay: time.Minute})
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
		r.settle(SyncEvent{Err: broken, Ended: start}, pause{delay: time.Second})
		require.Equal(t, n+1, r.attempt)
		require.True(t, r.wake(start.Add(time.Second)))
		require.Equal(t, n+1, r.begin().request.Attempt)
	}
	r.settle(SyncEvent{Err: broken, Interrupted: true, Ended: start}, pause{delay: time.Second})
	require.Equal(t, 3, r.attempt, "an interrupted call is no failure")
	require.NoError(t, r.apply(Update{Type: UpdateKill, Pod: testPod("a")}, start))
	require.Equal(t, 0, r.begin().request.Attempt, "a new state")
	require.NoError(t, r.lastErr)
	r.settle(SyncEvent{Err: broken, Ended: start}, pause{delay: time.Second})
	require.ErrorIs(t, r.lastErr, broken)
}

// TestFinishedRecordPinsNoPod: a tombstone may stay for as long as the pod is configured.
func TestFinishedRecordPinsNoPod(t *testing.T) {
	r := recordOf(t)
	r.settle(SyncEvent{Outcome: Outcome{Over: true}, Ended: start}, pause{})
	for _, kind := range []callKind{callTerminatingPod, callTerminatedPod} {
		require.Equal(t, kind, r.begin().kind)
		r.settle(SyncEvent{Ended: start}, pause{})
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

// TestRecordKeepsOrphan: the caller may reuse the Orphan after the call.
func TestRecordKeepsOrphan(t *testing.T) {
	o := &Orphan{UID: "a", Name: "x"}
	u := Update{Type: UpdateKill, Orphan: o}
	r := newRecord(u, start)
	require.NoError(t, r.absorb(u, start))
	o.Name = "y"
	require.Equal(t, "x", r.begin().orphan.Name)
	require.True(t, r.settle(SyncEvent{Ended: start}, pause{}))
}

// TestStatusFunctionsOfACallAreItsOwn: a call does not see status functions that arrive during the call.
func TestStatusFunctionsOfACallAreItsOwn(t *testing.T) {
	r := recordOf(t)
	var ran []int
	kill := func(n int) Update {
		return Update{Type: UpdateKill, Pod: testPod("a"), Kill: &KillOptions{Status: func(*v1.PodStatus) { ran = append(ran, n) }}}
	}
	require.ErrorIs(t, r.apply(kill(1), start), ErrTerminationRequested)
	r.settle(SyncEvent{Err: errors.New("cancelled"), Interrupted: true, Ended: start}, pause{})
	first := r.begin()
	require.NoError(t, r.apply(kill(2), start))
	first.terminating().ApplyStatus(nil)
	require.Equal(t, []int{1}, ran)
	r.settle(SyncEvent{Err: errors.New("x"), Ended: start}, pause{})
	second := r.begin()
	second.terminating().ApplyStatus(nil)
	require.Equal(t, []int{1, 1, 2}, ran)
}

// A create or update without a mirror pod removes the known mirror pod; a sync or kill keeps the known mirror pod.
func TestRecordKeepsTheMirrorPodOverSyncs(t *testing.T) {
	for kind, kept := range map[UpdateType]bool{UpdateCreate: false, UpdateUpdate: false, UpdateSync: true, UpdateKill: true} {
		r := recordOf(t)
		r.mirror = testPod("mirror")
		r.fold(Update{Type: kind, Pod: testPod("a")}, start)
		require.Equal(t, kept, r.mirror != nil, kind)
	}
}

// TestRecordKeepsWhatItKnows: decisions of one phase stay in later phases.
func TestRecordKeepsWhatItKnows(t *testing.T) {
	r := recordOf(t)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	kill := func() Update {
		return Update{Type: UpdateKill, Pod: testPod("a"), Kill: &KillOptions{Status: func(*v1.PodStatus) {}}}
	}
	require.NoError(t, r.apply(Update{Pod: testPod("a"), MirrorPod: testPod("mirror")}, at(1)))
	r.settle(SyncEvent{Ended: at(1)}, pause{delay: time.Minute})
	c := r.begin()
	assert.Equal(t, at(1), c.request.LastSync)
	require.NotNil(t, c.request.MirrorPod, "a mirror pod that is given is taken over whatever the type")
	require.NoError(t, r.apply(Update{Pod: testPod("a")}, at(1)))
	assert.NotNil(t, r.mirror, "and stays if a sync has none")
	r.settle(SyncEvent{Ended: at(2)}, pause{delay: time.Minute})

	require.NoError(t, r.apply(kill(), at(3)), "nothing is in flight")
	require.NoError(t, r.apply(Update{Type: UpdateKill, Pod: testPod("a"), Kill: &KillOptions{GracePeriodSeconds: new(int64(1))}}, at(3)),
		"a shorter grace period interrupts nothing, either")
	assert.EqualValues(t, 1, r.grace)
	assert.Len(t, r.begin().status, 1)
	r.settle(SyncEvent{Ended: at(4)}, pause{})
	require.Equal(t, phaseTerminated, r.phase)
	assert.Empty(t, r.status, "nothing reads them any more")
	require.NoError(t, r.apply(kill(), at(5)))
	assert.Empty(t, r.status)
	r.begin()
	r.settle(SyncEvent{Ended: at(6)}, pause{})
	require.Equal(t, phaseFinished, r.phase)
	assert.Equal(t, at(3), r.terminatingAt)
	assert.Equal(t, at(4), r.terminatedAt)
}

// TestAnOrphanHasNoPod, also if a pod with its UID is killed.
func TestAnOrphanHasNoPod(t *testing.T) {
	u := Update{Type: UpdateKill, Orphan: &Orphan{UID: "a"}}
	r := newRecord(u, start)
	require.NoError(t, r.absorb(u, start))
	require.NoError(t, r.apply(Update{Type: UpdateKill, Pod: testPod("a")}, start))
	assert.Nil(t, r.begin().request.Pod)
}

// TestRatchetByPhase: a grace period is decided when the pod is asked to end, and shortened only until it has ended.
func TestRatchetByPhase(t *testing.T) {
	for p := phaseWaiting; p <= phaseFinished; p++ {
		for _, asked := range []bool{false, true} {
			r := record{phase: p, grace: 30, pod: testPod("a")}
			want := p < phaseTerminated && (asked || p == phaseStopping || p == phaseTerminating)
			got := r.ratchet(Update{Type: UpdateKill, Kill: &KillOptions{GracePeriodSeconds: new(int64(5))}}, asked)
			assert.Equal(t, want, got, "phase %d asked %t", p, asked)
			assert.Equal(t, map[bool]int64{false: 30, true: 5}[want], r.grace)
		}
	}
	orphan := record{phase: phaseTerminating, grace: 30, orphan: &Orphan{UID: "a"}}
	pod := testPod("a")
	pod.DeletionGracePeriodSeconds = new(int64(7))
	assert.True(t, orphan.ratchet(Update{Type: UpdateKill, Pod: pod}, true), "the pod that asks may know more than the record")
	assert.EqualValues(t, 7, orphan.grace)
}

func TestRemindedRecords(t *testing.T) {
	r := record{phase: phaseFinished}
	r.remind(start)
	assert.False(t, r.unread, "nothing is left to do")
	r = record{phase: phaseSyncing, retryAt: start.Add(time.Hour)}
	r.remind(start)
	assert.True(t, r.due())
	assert.True(t, r.retryAt.IsZero())
	assert.Equal(t, start, r.received)
	r.remind(start.Add(time.Second))
	assert.Equal(t, start, r.received, "the first that was not told counts")
}

// TestConfigureOfAPodWithAHash: another hash is another pod only if it comes from a manifest.
func TestConfigureOfAPodWithAHash(t *testing.T) {
	pod := func(source, hash string) *v1.Pod {
		p := testPod("a")
		p.Annotations = map[string]string{podfacts.AnnotationSource: source, podfacts.AnnotationHash: hash}
		return p
	}
	types := func(list []Update) (out []UpdateType) {
		for _, u := range list {
			out = append(out, u.Type)
		}
		return out
	}
	r := &record{}
	assert.Equal(t, []UpdateType{UpdateKill, UpdateCreate}, types(r.configure(pod("file", "1"), pod("file", "2"))))
	assert.Empty(t, r.configure(pod("file", "1"), pod("file", "1")))
	assert.Equal(t, []UpdateType{UpdateUpdate}, types(r.configure(pod("api", "1"), pod("api", "2"))))
	assert.Equal(t, []UpdateType{UpdateUpdate}, types(r.configure(nil, pod("file", "1"))))
	same := pod("file", "1")
	assert.Empty(t, r.configure(same, same))
}

// TestAStatusAloneIsNoReasonForASync: the agent's own statuses return from the API server.
func TestAStatusAloneIsNoReasonForASync(t *testing.T) {
	grace := int64(5)
	for name, tc := range map[string]struct {
		edit  func(*v1.Pod)
		syncs bool
	}{
		"nothing": {func(*v1.Pod) {}, false},
		"a status": {func(p *v1.Pod) {
			p.ResourceVersion, p.Generation, p.Status.Phase = "2", 1, v1.PodRunning
			p.Status.Conditions = []v1.PodCondition{{Type: "example.com/gate", Status: v1.ConditionTrue}}
		}, false},
		"a gate of another client": {func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: "gate", Status: v1.ConditionTrue}}
		}, true},
		"a phase of another client": {func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, true},
		"a label":                   {func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":             {func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true},
		"deletion":                  {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }, true},
		"a grace period":            {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = &grace }, true},
		"an image":                  {func(p *v1.Pod) { p.Spec.Containers = []v1.Container{{Image: "b"}} }, true},
	} {
		gated := func() *v1.Pod {
			pod := testPod("a")
			pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
			return pod
		}
		pod := gated()
		tc.edit(pod)
		assert.Equal(t, tc.syncs, len((&record{}).configure(gated(), pod)) > 0, name)
	}
}
