// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// A new deletion timestamp and a new UID are news, and grant requests without the interval. A newer
// object alone is no news.
func TestObjectsThatAreNews(t *testing.T) {
	e := &entry{}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1"}}
	newer := func(version string, change func(*v1.Pod)) int {
		e.budget.told()
		pod = pod.DeepCopy()
		pod.ResourceVersion = version
		change(pod)
		require.True(t, e.sees(pod))
		return e.budget.quick
	}
	assert.Equal(t, budgetBurst, newer("1", func(*v1.Pod) {}), "the first object")
	assert.Zero(t, newer("2", func(pod *v1.Pod) { pod.Labels = map[string]string{"a": "b"} }))
	assert.Equal(t, budgetBurst, newer("3", func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }))
	assert.Zero(t, newer("4", func(*v1.Pod) {}))
	assert.Equal(t, budgetBurst, newer("5", func(pod *v1.Pod) { pod.UID = "b" }))
	assert.False(t, e.sees(pod), "the same object")
}

// A pod with trouble does not queue beside good pods.
func TestLaneOfAPod(t *testing.T) {
	fresh := budget{quick: 1}
	for name, c := range map[string]struct {
		entry entry
		want  lane
	}{
		"no request":          {entry{budget: fresh}, laneNew},
		"answered in time":    {entry{budget: fresh, pace: paceQuick}, laneGood},
		"answered late":       {entry{budget: fresh, pace: paceSlow}, laneTroubled},
		"failed":              {entry{budget: fresh, pace: paceQuick, failures: 1}, laneTroubled},
		"without news":        {entry{pace: paceQuick}, laneTroubled},
		"no request, no news": {entry{}, laneTroubled},
	} {
		assert.Equal(t, c.want, c.entry.lane(), name)
	}
}

// A probe result that is no news does not make a static pod that has ended go on.
func TestUnchangedResultsDoNotStartAPodAgain(t *testing.T) {
	m, err := New(Options{})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", Annotations: map[string]string{podfacts.AnnotationSource: "file"}}}
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
	_, err = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "main", ContainerID: "fake://1", Started: new(bool), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}})
	require.NoError(t, err)
	_, err = m.TerminatePod(pod)
	require.NoError(t, err)
	for _, set := range []func() (bool, error){
		func() (bool, error) { return m.SetContainerReadiness("a", "fake://1", false) },
		func() (bool, error) { return m.SetContainerStartup("a", "fake://1", false) },
	} {
		changed, err := set()
		require.NoError(t, err)
		assert.False(t, changed)
		assert.True(t, m.mu.entries["a"].finished)
	}
}

// Only an answer with a client error rejects a status: no other code says that the status is wrong.
func TestCodesThatRejectNothing(t *testing.T) {
	for code, want := range map[int32]verdict{0: verdictFailed, 302: verdictFailed, 399: verdictFailed, 400: verdictRejected, 499: verdictRejected, 500: verdictFailed} {
		got, _ := judge(&apierrors.StatusError{ErrStatus: metav1.Status{Code: code}})
		assert.Equal(t, want, got, code)
	}
}

// The error of a status that would undo a final state names the pod.
func TestTransitionErrorNamesThePod(t *testing.T) {
	m, err := New(Options{})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "a"}}
	_, err = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodFailed})
	require.NoError(t, err)
	_, err = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
	transition := &TransitionError{}
	require.ErrorAs(t, err, &transition)
	assert.EqualValues(t, "a", transition.UID)
	assert.Equal(t, types.NamespacedName{Namespace: "ns", Name: "web"}, transition.Pod)
}

// The answer to a GET is the pod itself, or the next mirror pod of a static pod on this node. Each other
// pod of the same name belongs to another owner, and is left alone.
func TestAnswersOfAnotherOwner(t *testing.T) {
	object := func(node, annotation string) *v1.Pod {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "other", ResourceVersion: "2", Annotations: map[string]string{annotation: "file"}}}
		pod.Spec.NodeName = node
		return pod
	}
	for name, c := range map[string]struct {
		pod, answer *v1.Pod
		gone        bool
	}{
		"next mirror pod":                {object("n", podfacts.AnnotationSource), object("n", podfacts.AnnotationMirror), false},
		"mirror pod of another node":     {object("n", podfacts.AnnotationSource), object("m", podfacts.AnnotationMirror), true},
		"ordinary pod for a static pod":  {object("n", podfacts.AnnotationSource), object("n", "x"), true},
		"mirror pod for an ordinary pod": {object("n", "x"), object("n", podfacts.AnnotationMirror), true},
		"ordinary pod of the same name":  {object("n", "x"), object("n", "x"), true},
	} {
		r := &record{pod: c.pod, remote: remote{ref: PodRef{Name: "web", UID: "web"}}}
		r.settleGet(&step{ref: r.remote.ref}, c.answer, time.Now())
		assert.Equal(t, c.gone, r.remote.gone, name)
		assert.Equal(t, c.gone, r.remote.ref.UID == "web", name)
	}
}

// A draft shares nothing with its status that is written to: the caller keeps the status.
func TestDraftsLeaveTheStatus(t *testing.T) {
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: "m", FinishedAt: metav1.Unix(1, 7)}}
	list := []v1.ContainerStatus{{Name: "a", State: ended, LastTerminationState: ended}, {Name: "b", State: ended, LastTerminationState: ended}}
	status := &v1.PodStatus{ContainerStatuses: list, InitContainerStatuses: list, EphemeralContainerStatuses: list}
	before := status.DeepCopy()
	draft := draftOf(status)
	require.Equal(t, before, draft)
	for _, list := range [][]v1.ContainerStatus{draft.ContainerStatuses, draft.InitContainerStatuses, draft.EphemeralContainerStatuses} {
		for i := range list {
			*list[i].State.Terminated = v1.ContainerStateTerminated{Message: "x"}
			*list[i].LastTerminationState.Terminated = v1.ContainerStateTerminated{Message: "x"}
			list[i].Name = "x"
		}
	}
	assert.Equal(t, before, status)
}

// The caller of TerminatePod says that no container is left. A container that the last status calls running does
// not keep the pod from its deletion.
func TestFinishedPodsRunNothing(t *testing.T) {
	m, err := New(Options{})
	require.NoError(t, err)
	running := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "a", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	assert.True(t, m.facts("a", &record{status: running}).mayRun)
	assert.False(t, m.facts("a", &record{status: running, finished: true}).mayRun)
}

// After a PATCH without an answer, the server may have the status or not, until a PATCH succeeds. A failed GET
// says nothing about that.
func TestFailedGetsLeaveTheDoubt(t *testing.T) {
	m, err := New(Options{})
	require.NoError(t, err)
	e := &entry{uid: "a"}
	for _, c := range []struct {
		request Request
		doubt   bool
	}{{RequestGet, false}, {RequestPatch, true}, {RequestGet, true}} {
		m.fail(e, &step{request: c.request}, verdictFailed, 0, time.Now())
		assert.Equal(t, c.doubt, e.remote.doubt, c.request)
	}
}

// A pod whose delay has become void is queued, and no longer delayed.
func TestQueuedPodsAreNotDelayed(t *testing.T) {
	m, err := New(Options{Patcher: struct{ Patcher }{}})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "a"}}
	e := m.entry("a")
	e.record.pod, e.record.status = pod, &v1.PodStatus{}
	e.budget.news()
	e.notUntil = time.Now().Add(time.Hour)
	m.schedule(e)
	assert.Equal(t, 1, m.Stats().Delayed)
	e.notUntil = time.Time{}
	m.schedule(e)
	stats := m.Stats()
	assert.Zero(t, stats.Delayed)
	assert.Equal(t, 1, stats.Queued[e.class()])
}

// Every request is charged, except a patch with a status that the caller has set since the last patch.
func TestRequestsThatAreCharged(t *testing.T) {
	for name, c := range map[string]struct {
		step    step
		told    uint64
		refused bool
		charged bool
	}{
		"a patch with news":            {step{request: RequestPatch, said: 2, version: 2}, 1, false, false},
		"a patch with news, refused":   {step{request: RequestPatch, said: 2, version: 2}, 1, true, true},
		"a patch without news":         {step{request: RequestPatch, said: 2, version: 2}, 2, false, true},
		"a get before the first patch": {step{request: RequestGet, said: 2, version: 2}, 1, false, true},
		"a deletion before the patch":  {step{request: RequestDelete, said: 2, version: 2}, 1, false, true},
		"no request":                   {step{said: 2, version: 2}, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(Options{})
			require.NoError(t, err)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}
			e := &entry{uid: "a"}
			e.pod, e.status, e.version, e.told = pod, &v1.PodStatus{Phase: v1.PodRunning}, 2, c.told
			e.remote.ref, c.step.ref = PodRef{Name: "a", UID: "a"}, PodRef{Name: "a", UID: "a"}
			answer := pod.DeepCopy()
			c.step.merged = v1.PodStatus{Phase: v1.PodRunning}
			if !c.refused {
				answer.Status = c.step.merged
			}
			m.succeed(e, &c.step, answer, time.Now())
			assert.Equal(t, c.charged, e.budget.bucket != budget{}.bucket)
		})
	}
}

// An answer about an object that has been replaced, and an answer that the pod is gone, are charged, too.
func TestAnswersThatAreCharged(t *testing.T) {
	for name, c := range map[string]struct {
		about types.UID
		err   error
	}{
		"another object": {"b", nil},
		"gone":           {"a", apierrors.NewNotFound(v1.Resource("pods"), "a")},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(Options{})
			require.NoError(t, err)
			e := &entry{uid: "a"}
			e.pod, e.status = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}, &v1.PodStatus{}
			e.remote.ref = PodRef{Name: "a", UID: "a"}
			s := &step{request: RequestPatch, ref: PodRef{Name: "a", UID: c.about}}
			assert.False(t, m.settle(e, s, nil, &RequestEvent{Err: c.err}, false))
			assert.NotEqual(t, budget{}.bucket, e.budget.bucket)
		})
	}
}

// The end of a pod is the caller's word, like each status.
func TestEndIsSaid(t *testing.T) {
	m, err := New(Options{})
	require.NoError(t, err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}}
	_, err = m.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning})
	require.NoError(t, err)
	_, err = m.TerminatePod(pod)
	require.NoError(t, err)
	e := m.mu.entries["a"]
	assert.Equal(t, e.version, e.said)
}
