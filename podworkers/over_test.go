// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stop is the arguments of Pods.Stop.
type stop struct {
	uid   types.UID
	pod   *v1.Pod
	grace time.Duration
	phase v1.PodPhase // of a status after edit
}

// plainPods implements Pods with fixed results.
type plainPods struct {
	over      bool
	again     time.Time
	err       error
	synced    *v1.Pod
	stops     []stop
	released  []*v1.Pod
	forgotten []types.UID
}

func (p *plainPods) Sync(_ context.Context, pod *v1.Pod) (bool, time.Time, error) {
	p.synced = pod
	return p.over, p.again, p.err
}

func (p *plainPods) Stop(_ context.Context, uid types.UID, pod *v1.Pod, grace time.Duration, edit func(*v1.PodStatus)) error {
	status := v1.PodStatus{}
	edit(&status)
	p.stops = append(p.stops, stop{uid, pod, grace, status.Phase})
	return p.err
}

func (p *plainPods) Release(_ context.Context, pod *v1.Pod) error {
	p.released = append(p.released, pod)
	return p.err
}

func (p *plainPods) Forgotten(uid types.UID) { p.forgotten = append(p.forgotten, uid) }

// restingPods is plainPods whose pods rest.
type restingPods struct{ *plainPods }

func (restingPods) Rests(uid types.UID) bool { return uid == "a" }

// Over passes every argument and result on.
func TestOver(t *testing.T) {
	at, broken := time.Unix(1_000, 0), errors.New("broken")
	for _, tc := range []struct {
		name string
		pods plainPods
		want Outcome // of a Rester; others never rest
	}{
		{"done", plainPods{}, Outcome{Rests: true}},
		{"over", plainPods{over: true}, Outcome{Over: true, Rests: true}},
		{"again", plainPods{again: at}, Outcome{Again: at}},
		{"failed", plainPods{err: broken}, Outcome{}},
		{"failed, with a time", plainPods{err: broken, again: at}, Outcome{Again: at}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod("a")
			check := func(pods *plainPods, s PodSyncer, want Outcome) {
				out, err := s.SyncPod(t.Context(), SyncRequest{Pod: pod})
				assert.Equal(t, want, out)
				assert.Same(t, pod, pods.synced)
				require.ErrorIs(t, err, pods.err)
				retry, ok := earliestRetry(err)
				assert.Equal(t, pods.err != nil && !pods.again.IsZero(), ok)
				if ok {
					assert.Equal(t, pods.again, retry)
				}
				require.ErrorIs(t, s.SyncTerminatedPod(t.Context(), SyncRequest{Pod: pod}), pods.err)
				assert.Equal(t, []*v1.Pod{pod}, pods.released)
				failed := func(status *v1.PodStatus) { status.Phase = v1.PodFailed }
				request := TerminatingRequest{SyncRequest: SyncRequest{Pod: pod}, GracePeriodSeconds: 7, ApplyStatus: failed}
				require.ErrorIs(t, s.SyncTerminatingPod(t.Context(), request), pods.err)
				require.ErrorIs(t, s.(OrphanSyncer).SyncTerminatingOrphan(t.Context(), Orphan{UID: "o"}, 9), pods.err)
				assert.Equal(t, []stop{{"a", pod, 7 * time.Second, v1.PodFailed}, {"o", nil, 9 * time.Second, ""}}, pods.stops)
				s.(Forgetter).Forgotten("a")
				assert.Equal(t, []types.UID{"a"}, pods.forgotten)
			}
			resting, plain := tc.pods, tc.pods
			check(&resting, Over(restingPods{&resting}), tc.want)
			tc.want.Rests = false
			check(&plain, Over(&plain), tc.want)
		})
	}
}

func TestInterrupted(t *testing.T) {
	disrupted := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}
	for _, tc := range []struct {
		name       string
		status     v1.PodStatus
		phase      v1.PodPhase
		reason     string
		conditions int
	}{
		{"running", v1.PodStatus{Phase: v1.PodRunning}, v1.PodFailed, "Terminated", 1},
		{"with another condition", v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}, v1.PodFailed, "Terminated", 2},
		{"no longer disrupted", v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionFalse}}}, v1.PodFailed, "Terminated", 2},
		{"disrupted before", v1.PodStatus{Conditions: []v1.PodCondition{disrupted}}, v1.PodFailed, "Terminated", 1},
		{"twice", v1.PodStatus{Phase: v1.PodFailed, Reason: "Terminated"}, v1.PodFailed, "Terminated", 1},
		{"completed", v1.PodStatus{Phase: v1.PodSucceeded}, v1.PodSucceeded, "", 0},
		{"failed by itself", v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}, v1.PodFailed, "Evicted", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			Interrupted(&tc.status)
			assert.Equal(t, tc.phase, tc.status.Phase)
			assert.Equal(t, tc.reason, tc.status.Reason)
			require.Len(t, tc.status.Conditions, tc.conditions)
			if tc.reason == "Terminated" {
				last := tc.status.Conditions[tc.conditions-1]
				assert.Equal(t, []any{v1.DisruptionTarget, v1.ConditionTrue}, []any{last.Type, last.Status})
				const message = "Pod was terminated in response to imminent node shutdown."
				assert.Equal(t, message, tc.status.Message)
				if tc.name != "disrupted before" {
					assert.Equal(t, []string{v1.PodReasonTerminationByKubelet, message}, []string{last.Reason, last.Message})
				}
			}
		})
	}
}

// An invalid pod in the list holds up no other pod. The grace period of an unknown pod is at least
// a second.
func TestSetPodsWithoutAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var graces []int64
		w, stop := runWorkers(t, Options{Syncer: &funcSyncer{orphan: func(_ context.Context, _ Orphan, grace int64) error {
			graces = append(graces, grace)
			return nil
		}}})
		defer stop()
		require.ErrorIs(t, w.SetPods([]*v1.Pod{nil, testPod("a"), testPod("")}, true), ErrInvalidUpdate)
		synctest.Wait()
		assert.Equal(t, StateSync, info(t, w, "a").State)
		stopping, err := w.StopUnknown("b", "ns", "name", 0)
		require.NoError(t, err)
		assert.True(t, stopping)
		synctest.Wait()
		assert.Equal(t, []int64{1}, graces)
	})
}
