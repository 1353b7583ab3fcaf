// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOwnPodsForgetPodsThatAreGone(t *testing.T) {
	p := newOwnPods()
	assert.False(t, p.ShouldPodRuntimeBeRemoved("a"), "of a pod that nobody has told of nothing is known")
	p.need("a")
	p.orphan("a")
	p.forget("a")
	assert.False(t, p.ShouldPodRuntimeBeRemoved("a"), "a pod that needs its volumes is no orphan")
	assert.Len(t, p.gone, 1)
	p.release("a")
	assert.True(t, p.ShouldPodRuntimeBeRemoved("a"))
	p.forget("a")
	p.orphan("b")
	assert.True(t, p.ShouldPodContainersBeTerminating("b"))
	p.forget("b")
	assert.Empty(t, p.gone)
}

// A pod that has ended is forgotten with its volumes and folder: pods come and go for months.
func TestPodsThatAreGoneLeaveNothing(t *testing.T) {
	m, err := New(Options{Root: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, m.Reconstruct(t.Context()))
	for _, uid := range []types.UID{"a", "b"} {
		require.NoError(t, m.WaitForAttachAndMount(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}))
	}
	assert.Len(t, m.own.gone, 2)
	require.NoError(t, m.WaitForAllPodsUnmount(t.Context(), "a", "b"))
	require.NoError(t, m.CleanupOrphan("c"))
	assert.Empty(t, m.own.gone)
	assert.Empty(t, m.mu.pods)
}
