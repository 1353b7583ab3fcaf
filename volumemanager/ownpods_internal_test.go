// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
