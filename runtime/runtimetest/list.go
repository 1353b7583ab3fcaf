// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

func listCases() []testCase {
	return []testCase{
		{"ListGroupsByPod", listGroupsByPod},
		{"ListAgreesWithPodStatus", listAgreesWithPodStatus},
		{"ListRunningOnly", listRunningOnly},
		{"PodStatusOfUnknownUID", podStatusOfUnknownUID},
	}
}

func listGroupsByPod(b *bench) {
	const pods = 4
	for range pods {
		p := b.pod("one", "two")
		sb := b.sandbox(p, 0)
		b.create(p, sb, "one", 0, Behaviour{})
		b.create(p, sb, "two", 0, Behaviour{})
	}
	empty := b.pod("main")
	b.sandbox(empty, 0)
	mine := b.list(runtime.ListOptions{})
	require.Len(b, mine, pods+1, ruleList)
	for _, p := range b.ownPods()[:pods] {
		st := mine[p.UID]
		require.NotNil(b, st, ruleList)
		require.Equal(b, p.Namespace+"/"+p.Name, st.Namespace+"/"+st.Name, ruleList)
		require.Len(b, st.Sandboxes, 1, ruleList)
		require.Len(b, st.Containers, 2, ruleList)
		require.Equal(b, "two", st.Containers[0].Name, ruleOrder)
	}
	require.Len(b, mine[empty.UID].Sandboxes, 1, ruleList)
	require.Empty(b, mine[empty.UID].Containers, ruleList)
}

func listAgreesWithPodStatus(b *bench) {
	p := b.pod("main", "made", "done")
	old := b.sandbox(p, 0)
	b.run(p, old, "main", 0, Behaviour{})
	require.NoError(b, b.rt.StopSandbox(b.Context(), old), ruleSandStop)
	sb := b.sandbox(p, 1)
	b.run(p, sb, "main", 1, Behaviour{})
	b.create(p, sb, "made", 0, Behaviour{})
	done := b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce})
	b.start(done)
	b.awaitExit(p, done)

	full, listed := b.status(p), b.list(runtime.ListOptions{})[p.UID]
	require.NotNil(b, listed, ruleList)
	require.Len(b, listed.Sandboxes, len(full.Sandboxes), ruleList)
	for i, s := range listed.Sandboxes {
		require.Equal(b, full.Sandboxes[i].ID, s.ID, "%s; %s", ruleList, ruleOrder)
		require.Equal(b, full.Sandboxes[i].Ready, s.Ready, ruleList)
	}
	require.Len(b, listed.Containers, len(full.Containers), ruleList)
	for i, c := range listed.Containers {
		want := full.Containers[i]
		require.Equal(b, want.ID, c.ID, "%s; %s", ruleList, ruleOrder)
		require.Equal(b, want.Name, c.Name, ruleList)
		require.Equal(b, want.Sandbox, c.Sandbox, ruleList)
		require.Equal(b, want.State.String(), c.State.String(), ruleList)
	}
}

func listRunningOnly(b *bench) {
	p, idle := b.pod("main", "made", "done"), b.pod("main")
	old := b.sandbox(p, 0)
	require.NoError(b, b.rt.StopSandbox(b.Context(), old), ruleSandStop)
	sb := b.sandbox(p, 1)
	running := b.run(p, sb, "main", 0, Behaviour{})
	b.create(p, sb, "made", 0, Behaviour{})
	done := b.create(p, sb, "done", 0, Behaviour{ExitAfter: AtOnce})
	b.start(done)
	b.awaitExit(p, done)
	require.NoError(b, b.rt.StopSandbox(b.Context(), b.sandbox(idle, 0)), ruleSandStop)

	mine := b.list(runtime.ListOptions{RunningOnly: true})
	st := mine[p.UID]
	require.NotNil(b, st, ruleRunOnly)
	require.Len(b, st.Sandboxes, 1, ruleRunOnly)
	require.Equal(b, sb, st.Sandboxes[0].ID, ruleRunOnly)
	require.Len(b, st.Containers, 1, ruleRunOnly)
	require.Equal(b, running, st.Containers[0].ID, ruleRunOnly)
	// The seam does not define whether a pod without remains is listed.
	if st := mine[idle.UID]; st != nil {
		require.Empty(b, st.Sandboxes, ruleRunOnly)
		require.Empty(b, st.Containers, ruleRunOnly)
	}
}

func podStatusOfUnknownUID(b *bench) {
	for _, uid := range []types.UID{"00000000-0000-0000-0000-000000000000", "../..", ""} {
		before := time.Now()
		st, err := b.rt.PodStatus(b.Context(), uid)
		require.NoError(b, err, "%s: %q", ruleUnknownUID, uid)
		require.NotNil(b, st, ruleUnknownUID)
		require.Equal(b, uid, st.UID, ruleUnknownUID)
		require.Empty(b, st.Sandboxes, ruleUnknownUID)
		require.Empty(b, st.Containers, ruleUnknownUID)
		require.False(b, st.ObservedAt.Before(before.Add(-time.Second)), ruleObserved)
	}
}
