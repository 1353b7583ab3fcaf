// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/httpaction"
)

// watching is a Runtime that says whether it hints at each change.
type watching struct {
	Runtime
	Watcher
	all bool
}

func (w watching) WatchesAll() bool { return w.all }

func TestUnprompted(t *testing.T) {
	assert.Equal(t, 10*time.Minute, Unprompted(watching{all: true}, time.Minute))
	assert.Equal(t, time.Minute, Unprompted(watching{}, time.Minute))
	var plain struct{ Runtime }
	assert.Equal(t, time.Minute, Unprompted(plain, time.Minute))
	assert.Equal(t, 7*time.Minute, Unprompted(resting{watching{all: true}}, time.Minute))
	assert.Equal(t, time.Minute, Unprompted(resting{}, time.Minute), "a runtime without the guarantee")
}

// resting is a LosslessWatcher.
type resting struct{ watching }

func (resting) LosslessFactor() time.Duration { return 7 }

// A node may have nothing of a resource to give.
func TestAllocatableMayBeZero(t *testing.T) {
	opts := DefaultGeneratorOptions{LogRoot: "/logs", Allocatable: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("0")}}
	_, err := NewDefaultGenerator(opts)
	require.NoError(t, err)
	opts.Allocatable[v1.ResourceCPU] = resource.MustParse("-1m")
	_, err = NewDefaultGenerator(opts)
	require.EqualError(t, err, "runtime: DefaultGeneratorOptions.Allocatable: cpu is negative")
}

// Each failure of a request has its own words, without those of the server.
func TestWithoutAnswer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for want, err := range map[string]error{
		httpaction.ErrRedirects.Error():               fmt.Errorf("server's text: %w", httpaction.ErrRedirects),
		http.ErrSchemeMismatch.Error():                fmt.Errorf("server's text: %w", http.ErrSchemeMismatch),
		"the connection was closed without an answer": fmt.Errorf("server's text: %w", io.EOF),
		refused.Error():                               fmt.Errorf("server's text: %w", refused),
		"no valid answer":                             errors.New("server's text"),
	} {
		assert.EqualError(t, withoutAnswer(t.Context(), err), want)
	}
	assert.EqualError(t, withoutAnswer(t.Context(), io.ErrUnexpectedEOF), "the connection was closed without an answer")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the pod ends"))
	assert.EqualError(t, withoutAnswer(ctx, io.EOF), "the pod ends")
}

// Nothing is known of the resources of a container without an instance, and of an instance that the
// pod does not have.
func TestResourcesOfWhatIsNotThere(t *testing.T) {
	r := newResizer(updating{})
	require.NotNil(t, r)
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	status := &PodStatus{Containers: []ContainerStatus{{Name: "other", State: StateRunning, ID: ContainerID{Runtime: "x", ID: "1"}}}}
	of := r.actuatedOf(pod, status)
	for _, name := range []string{"c", "other", "nothing"} {
		_, known := of(name)
		assert.False(t, known, name)
	}
}

// updating is a Runtime that could resize.
type updating struct {
	Runtime
	Updater
}

func TestTrackerNeedsARuntime(t *testing.T) {
	_, err := NewTracker(TrackerOptions{})
	require.EqualError(t, err, "runtime: TrackerOptions.Runtime is required")
}

// The loss of a sandbox is a change of its pod.
func TestInstanceStatesTellSandboxes(t *testing.T) {
	of := func(ready bool) []instanceState {
		return instanceStates(&PodStatus{Sandboxes: []SandboxStatus{{ID: "s", Ready: ready}}})
	}
	assert.Equal(t, []instanceState{{"s", StateRunning}}, of(true))
	assert.Equal(t, []instanceState{{"s", StateExited}}, of(false))
}

// A sidecar is stopped after the regular containers and the sidecars behind it. It does not wait for an init
// container without a restart policy, and no other container waits.
func TestPrerequisitesOfAStop(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "s1", RestartPolicy: &always}, {Name: "init"}, {Name: "s2", RestartPolicy: &always}, {Name: "last"}},
		Containers:     []v1.Container{{Name: "a"}, {Name: "b"}},
	}}
	for name, want := range map[string][]string{"s1": {"a", "b", "s2"}, "s2": {"a", "b"}, "init": nil, "last": nil, "a": nil, "unknown": nil} {
		assert.Equal(t, want, prerequisites(pod, name), name)
	}
}

// An instance that never ran does not end, and an instance that has ended keeps its end.
func TestEndedInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now().Add(-time.Minute)
		for state, want := range map[State]ContainerStatus{
			StateCreated: {State: StateCreated, FinishedAt: before},
			StateExited:  {State: StateExited, FinishedAt: before},
			StateRunning: {State: StateExited, FinishedAt: time.Now()},
			StateUnknown: {State: StateExited, FinishedAt: time.Now()},
		} {
			assert.Equal(t, want, ended(ContainerStatus{State: state, FinishedAt: before}), "%v", state)
		}
	})
}

// All sandboxes of a pod belong to its state.
func TestInstanceStatesTellAllSandboxes(t *testing.T) {
	assert.Len(t, instanceStates(&PodStatus{Sandboxes: []SandboxStatus{{ID: "new"}, {ID: "old"}}}), 2)
}

// Of the removed records of a container the newest is remembered, in whatever order they are removed.
func TestNewestRemovedRecordIsRemembered(t *testing.T) {
	m := &Manager{}
	m.mu.removed = make(map[types.UID]map[string]ContainerStatus)
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for i, want := range []int32{1, 2, 2} {
		count := []int32{1, 2, 0}[i]
		m.remember("uid", ContainerStatus{Name: "c", RestartCount: count, CreatedAt: began.Add(time.Duration(count) * time.Second)})
		assert.Equal(t, want, m.recall("uid", "c").RestartCount)
	}
}

// A failed update leaves the resources from before it, and they are not certain.
func TestResourcesAfterAFailedUpdate(t *testing.T) {
	from := v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}
	id := ContainerID{Runtime: "x", ID: "1"}
	r := newResizer(failingUpdates{})
	status := &PodStatus{Containers: []ContainerStatus{{Name: "c", State: StateRunning, ID: id}}}
	require.Error(t, r.carryOut(t.Context(), "uid", status, []Resize{{Name: "c", ID: id, From: from}}))
	assert.Equal(t, map[ContainerID]actuated{id: {resources: from, unsure: true}}, r.mu.actuated["uid"])
}

// failingUpdates is a Runtime that resizes nothing.
type failingUpdates struct {
	Runtime
}

func (failingUpdates) UpdateResources(context.Context, ContainerID, v1.ResourceRequirements) error {
	return errors.New("no")
}

// The newest end of each container is known, if the container does not run again after it. A record that never ran
// does not hide it.
func TestSeenEnds(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "a"}, {Name: "b"}}}}
	m := &Manager{}
	m.mu.seen = make(map[types.UID]map[string]ContainerStatus)
	record := func(name string, restarts int32, state State, code int32) ContainerStatus {
		return ContainerStatus{
			Name: name, RestartCount: restarts, State: state, ExitCode: code, Annotations: map[string]string{"long": "text"},
			ID: ContainerID{Runtime: "x", ID: fmt.Sprint(name, restarts)}, CreatedAt: time.Unix(int64(restarts), 0),
		}
	}
	both := []ContainerStatus{record("b", 0, StateExited, 0), record("a", 0, StateExited, 0)}
	for name, c := range map[string]struct {
		newest []ContainerStatus
		want   []string
	}{
		"both have ended":    {nil, []string{"a0", "b0"}},
		"a is made anew":     {[]ContainerStatus{record("a", 1, StateCreated, 0)}, []string{"a0", "b0"}},
		"a has ended anew":   {[]ContainerStatus{record("a", 1, StateExited, 0)}, []string{"a1", "b0"}},
		"a has failed anew":  {[]ContainerStatus{record("a", 1, StateExited, 1)}, []string{"b0"}},
		"both failed anew":   {[]ContainerStatus{record("a", 1, StateExited, 1), record("b", 1, StateExited, 1)}, nil},
		"a failed, b is new": {[]ContainerStatus{record("a", 1, StateExited, 1), record("b", 1, StateCreated, 0)}, []string{"b0"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(m.mu.seen)
			m.see(pod, &PodStatus{Containers: both})
			m.see(pod, &PodStatus{Containers: append(c.newest, both...)})
			var got []string
			for _, seen := range m.mu.seen[""] {
				got = append(got, seen.ID.ID)
				assert.Empty(t, seen.Annotations, "they take memory, and nothing reads them")
			}
			assert.ElementsMatch(t, c.want, got)
		})
	}
}

// TestAnInstanceThatNeverRanReplacesNoneThatDid: the runtime made an instance for an earlier agent after the instance
// that ran. Both records are removed, in either order: the instance that ran is remembered, for the next restart count.
func TestAnInstanceThatNeverRanReplacesNoneThatDid(t *testing.T) {
	at := time.Unix(1000, 0)
	ran := ContainerStatus{ID: ContainerID{ID: "ran"}, Name: "c", State: StateExited, RestartCount: 1, CreatedAt: at}
	late := ContainerStatus{ID: ContainerID{ID: "late"}, Name: "c", State: StateCreated, RestartCount: 1, CreatedAt: at.Add(time.Second)}
	next := ContainerStatus{ID: ContainerID{ID: "next"}, Name: "c", State: StateCreated, RestartCount: 2, CreatedAt: at.Add(2 * time.Second)}
	for _, c := range []struct {
		removed []ContainerStatus
		want    string
	}{
		{[]ContainerStatus{ran, late}, "ran"}, {[]ContainerStatus{late, ran}, "ran"},
		{[]ContainerStatus{ran, next}, "next"}, {[]ContainerStatus{next, ran}, "next"}, {[]ContainerStatus{next, late, ran}, "next"},
	} {
		m := &Manager{}
		m.mu.removed = map[types.UID]map[string]ContainerStatus{}
		for _, removed := range c.removed {
			m.remember("uid", removed)
		}
		assert.Equal(t, c.want, m.recall("uid", "c").ID.ID, "%v", c.removed)
	}
}
