// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func (n *node) listed(opts runtime.ListOptions) map[types.UID]*runtime.PodStatus {
	n.tb.Helper()
	pods, err := n.List(n.tb.Context(), opts)
	require.NoError(n.tb, err)
	out := map[types.UID]*runtime.PodStatus{}
	for _, st := range pods {
		out[st.UID] = st
	}
	return out
}

func TestFlappingListOmits(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.run(n.sandbox("u", 0), "web", 0)
		n.run(n.sandbox("v", 0), "web", 0)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpList, UID: "u"}, Lie: fake.Omit, Nth: 2})
		for i, want := range []int{2, 1, 2} {
			got := n.listed(runtime.ListOptions{})
			assert.Len(t, got, want, "list %d", i)
			assert.Contains(t, got, types.UID("v"))
		}
		assert.Len(t, n.status("u").Containers, 1, "the lie is about List only")

		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Lie: fake.Omit})
		st := n.status("u")
		assert.Equal(t, types.UID("u"), st.UID)
		assert.Empty(t, st.Sandboxes)
	})
}

func TestFlappingListIsStale(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		n.run(sb, "web", 0)
		in := n.inject(fake.Fault{On: fake.Target{Pod: "pod-u"}, Lie: fake.Stale})
		require.NoError(t, n.Kill("u", "web", 1))
		n.run(sb, "web", 1)
		n.run(n.sandbox("v", 0), "web", 0)
		after(time.Minute)

		st := n.status("u")
		require.Len(t, st.Containers, 1, "as it was")
		assert.Equal(t, runtime.StateRunning, st.Containers[0].State)
		assert.Equal(t, time.Now(), st.ObservedAt, "but it says that this is now")
		st.Containers[0].State = runtime.StateUnknown
		assert.Equal(t, runtime.StateRunning, n.listed(runtime.ListOptions{RunningOnly: true})["u"].Containers[0].State, "a copy")
		assert.Len(t, n.status("v").Containers, 1, "the lie is about one pod")

		require.NoError(t, n.RemoveSandbox(t.Context(), sb))
		assert.Contains(t, n.listed(runtime.ListOptions{}), types.UID("u"), "a ghost")
		in.Clear()
		assert.NotContains(t, n.listed(runtime.ListOptions{}), types.UID("u"))
	})
}

func TestFlappingListDuplicatesASandbox(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		real := n.sandbox("u", 3)
		n.sandbox("v", 0)
		n.inject(fake.Fault{On: fake.Target{UID: "u"}, Lie: fake.DuplicateSandbox, Times: 2})
		for _, st := range []*runtime.PodStatus{n.status("u"), n.listed(runtime.ListOptions{RunningOnly: true})["u"]} {
			require.Len(t, st.Sandboxes, 2)
			assert.Equal(t, real, st.Sandboxes[1].ID)
			assert.True(t, st.Sandboxes[0].Ready && st.Sandboxes[1].Ready)
			assert.True(t, st.Sandboxes[0].CreatedAt.After(st.Sandboxes[1].CreatedAt))
			assert.NotEqual(t, real, st.Sandboxes[0].ID)
		}
		assert.Len(t, n.status("u").Sandboxes, 1, "struck twice, and no more")

		n.inject(fake.Fault{On: fake.Target{UID: "u"}, Lie: fake.DuplicateSandbox})
		assert.Len(t, n.listed(runtime.ListOptions{})["u"].Sandboxes, 2)
		assert.Len(t, n.listed(runtime.ListOptions{})["v"].Sandboxes, 1, "the lie is about one pod")
	})
}
