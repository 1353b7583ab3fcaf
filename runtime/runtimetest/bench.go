// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
)

// longGrace is a grace period longer than any case.
const longGrace = 10 * time.Minute

// bench has the subject of a case and helpers for checks.
type bench struct {
	testing.TB
	h  Harness
	s  *Subject
	rt runtime.Runtime

	mu   sync.Mutex
	pods []*testPod
}

// testPod is a pod of a case.
type testPod struct {
	*v1.Pod
	logs string
}

// pod makes a pod with these containers and a random UID.
func (b *bench) pod(containers ...string) *testPod {
	var r [16]byte
	_, _ = rand.Read(r[:]) // never fails
	uid := types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", r[:4], r[4:6], r[6:8], r[8:10], r[10:]))
	pod := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "runtimetest", Name: fmt.Sprintf("pod-%x", r[:4])},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever},
	}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: name, Image: "runtimetest", Command: []string{"what runs is ContainerSpec.Command"},
		})
	}
	if b.h.Pod != nil {
		b.h.Pod(pod)
	}
	p := &testPod{Pod: pod, logs: filepath.Join(b.s.Logs, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, uid))}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods = append(b.pods, p)
	return p
}

func (p *testPod) sandboxSpec(attempt uint32) runtime.SandboxSpec {
	return runtime.SandboxSpec{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name, Attempt: attempt,
		Hostname: p.Name, HostNetwork: p.Spec.HostNetwork, LogDirectory: p.logs,
		Labels:      map[string]string{"app": "runtimetest"},
		Annotations: map[string]string{"suite": "runtimetest"},
		Pod:         p.Pod,
	}
}

// spec returns the default spec of a container. A case may change it.
func (b *bench) spec(p *testPod, name string, restart int32, behave Behaviour) runtime.ContainerSpec {
	spec := runtime.ContainerSpec{
		Name: name, RestartCount: restart, Hash: "h-" + name, Image: "runtimetest",
		Env:         []runtime.EnvVar{{Name: "PATH", Value: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}},
		LogPath:     filepath.Join(p.logs, name, fmt.Sprintf("%d.log", restart)),
		Labels:      map[string]string{"container": name},
		Annotations: map[string]string{"runtimetest/name": name},
		Pod:         p.Pod,
	}
	if ref, ok := runtime.Find(p.Pod, name); ok {
		spec.Container = ref.Container(p.Pod)
	}
	if b.s.Container != nil {
		b.s.Container(behave, &spec)
	} else {
		spec.Command = Shell(behave)
	}
	return spec
}

func (b *bench) sandbox(p *testPod, attempt uint32) runtime.SandboxID {
	b.Helper()
	id, err := b.rt.RunSandbox(b.Context(), p.sandboxSpec(attempt))
	require.NoError(b, err, ruleRunSandbox)
	require.NotEmpty(b, id, ruleSandboxMet)
	return id
}

func (b *bench) create(p *testPod, sandbox runtime.SandboxID, name string, restart int32, behave Behaviour) runtime.ContainerID {
	b.Helper()
	return b.createSpec(sandbox, b.spec(p, name, restart, behave))
}

func (b *bench) createSpec(sandbox runtime.SandboxID, spec runtime.ContainerSpec) runtime.ContainerID {
	b.Helper()
	id, err := b.rt.CreateContainer(b.Context(), sandbox, spec)
	require.NoError(b, err, impliedCreate)
	require.Equal(b, b.rt.Name(), id.Runtime, ruleName)
	require.NotEmpty(b, id.ID, ruleID)
	return id
}

func (b *bench) start(id runtime.ContainerID) {
	b.Helper()
	require.NoError(b, b.rt.StartContainer(b.Context(), id), ruleStart)
}

// run makes and starts a container, and waits until its log has the line "ready".
func (b *bench) run(p *testPod, sandbox runtime.SandboxID, name string, restart int32, behave Behaviour) runtime.ContainerID {
	b.Helper()
	behave.Print = append(slices.Clone(behave.Print), "ready")
	spec := b.spec(p, name, restart, behave)
	id := b.createSpec(sandbox, spec)
	b.start(id)
	b.awaitLine(spec.LogPath, "ready")
	return id
}

// status returns PodStatus after a check of the general rules.
func (b *bench) status(p *testPod) *runtime.PodStatus {
	b.Helper()
	before := time.Now()
	st, err := b.rt.PodStatus(b.Context(), p.UID)
	require.NoError(b, err, rulePodStatus)
	require.NotNil(b, st, rulePodStatus)
	require.Equal(b, p.UID, st.UID, rulePodStatus)
	// The wall clock may be set back during the test, by less than a second.
	require.False(b, st.ObservedAt.Before(before.Add(-time.Second)) || st.ObservedAt.After(time.Now()),
		"%s: %v, asked at %v", ruleObserved, st.ObservedAt, before)
	b.checkStatus(st)
	return st
}

// checkStatus checks the rules for every full status.
func (b *bench) checkStatus(st *runtime.PodStatus) {
	b.Helper()
	require.True(b, slices.IsSortedFunc(st.Sandboxes, func(x, y runtime.SandboxStatus) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ID, x.ID))
	}), "%s: sandboxes %+v", ruleOrder, st.Sandboxes)
	require.True(b, slices.IsSortedFunc(st.Containers, func(x, y runtime.ContainerStatus) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ID.ID, x.ID.ID))
	}), "%s: containers %+v", ruleOrder, st.Containers)
	for _, c := range st.Containers {
		require.Equal(b, b.rt.Name(), c.ID.Runtime, ruleName)
		require.False(b, c.CreatedAt.IsZero(), "%s: %+v", ruleTimes, c)
		switch c.State {
		case runtime.StateCreated:
			require.True(b, c.StartedAt.IsZero() && c.FinishedAt.IsZero(), "%s: %+v", ruleTimes, c)
		case runtime.StateRunning:
			require.True(b, c.FinishedAt.IsZero(), "%s: %+v", ruleTimes, c)
			require.False(b, c.StartedAt.Before(c.CreatedAt), "%s: %+v", ruleTimes, c)
		case runtime.StateExited:
			require.False(b, c.FinishedAt.IsZero(), "%s: %+v", ruleTimes, c)
			// A container that was stopped before its start has no StartedAt.
			require.False(b, c.FinishedAt.Before(c.StartedAt), "%s: %+v", ruleTimes, c)
		}
	}
}

// container returns the status of an instance, or nil without a record.
func (b *bench) container(p *testPod, id runtime.ContainerID) *runtime.ContainerStatus {
	b.Helper()
	st := b.status(p)
	i := slices.IndexFunc(st.Containers, func(c runtime.ContainerStatus) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &st.Containers[i]
}

// mustState checks the current state of an instance, and returns its status.
func (b *bench) mustState(p *testPod, id runtime.ContainerID, want runtime.State, r rule) *runtime.ContainerStatus {
	b.Helper()
	c := b.container(p, id)
	require.NotNil(b, c, "%s: container %s has no record", r, id)
	require.Equal(b, want.String(), c.State.String(), "%s: %+v", r, *c)
	return c
}

// awaitExit waits until an instance has exited by itself.
func (b *bench) awaitExit(p *testPod, id runtime.ContainerID) *runtime.ContainerStatus {
	b.Helper()
	var c *runtime.ContainerStatus
	b.await(ruleDurable, "the exit of "+id.String(), func() bool {
		c = b.container(p, id)
		require.NotNil(b, c, "%s: container %s has no record any more", ruleDurable, id)
		return c.State == runtime.StateExited
	})
	return c
}

// await polls until done returns true. Not every backend offers an event to wait for.
func (b *bench) await(r rule, what string, done func() bool) {
	b.Helper()
	deadline := time.Now().Add(b.h.Patience)
	for !done() {
		require.True(b, time.Now().Before(deadline), "%s: waited %v for %s", r, b.h.Patience, what)
		time.Sleep(b.h.Unit / 10)
	}
}

// list returns the pods of this case from List, after a check of their order.
func (b *bench) list(opts runtime.ListOptions) map[types.UID]*runtime.PodStatus {
	b.Helper()
	pods, err := b.rt.List(b.Context(), opts)
	require.NoError(b, err, ruleList)
	mine := map[types.UID]*runtime.PodStatus{}
	for _, st := range pods {
		require.NotNil(b, st, ruleList)
		if slices.ContainsFunc(b.ownPods(), func(p *testPod) bool { return p.UID == st.UID }) {
			require.NotContains(b, mine, st.UID, "%s: one entry per pod", ruleList)
			mine[st.UID] = st
		}
	}
	return mine
}

func (b *bench) ownPods() []*testPod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.pods)
}

// reopen continues with a new value over the same state.
func (b *bench) reopen(meanwhile func()) {
	b.Helper()
	if b.s.Reopen == nil {
		b.Skip("the harness cannot reopen")
	}
	b.rt = b.s.Reopen(b, meanwhile)
	require.NotNil(b, b.rt, "Subject.Reopen must return a runtime")
}

// gone reports whether a Stop or Remove of a missing object may return err.
func gone(err error) bool { return err == nil || errors.Is(err, runtime.ErrNotFound) }

// cleanUp removes all objects of the case, using only the results of List, as an agent does for
// pods with an unknown spec.
func (b *bench) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*b.h.Patience)
	defer cancel()
	for _, p := range b.ownPods() {
		st, err := b.rt.PodStatus(ctx, p.UID)
		if err != nil {
			b.Errorf("clean-up: %s: %v", rulePodStatus, err)
			continue
		}
		for _, c := range st.Containers {
			b.remove(ctx, func() error { return b.rt.RemoveContainer(ctx, c.ID) })
		}
		for _, s := range st.Sandboxes {
			b.remove(ctx, func() error { return b.rt.RemoveSandbox(ctx, s.ID) })
		}
		st, err = b.rt.PodStatus(ctx, p.UID)
		if err != nil || len(st.Containers)+len(st.Sandboxes) > 0 {
			b.Errorf("clean-up: %s: left %+v, %v", ruleRemove, st, err)
		}
	}
}

// remove repeats a removal until ctx ends, as an agent does: containerd 1.6 removes no container whose start was
// cancelled a moment ago.
func (b *bench) remove(ctx context.Context, try func() error) {
	for {
		err := try()
		if gone(err) {
			return
		}
		if retry.Sleep(ctx, 100*time.Millisecond) != nil {
			b.Errorf("clean-up: %s: %v", ruleRemove, err)
			return
		}
	}
}
