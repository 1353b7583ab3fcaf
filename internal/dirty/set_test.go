// SPDX-License-Identifier: Apache-2.0

package dirty

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestSet(t *testing.T) {
	s := New()
	signalled := func() bool {
		select {
		case <-s.Signal():
			return true
		default:
			return false
		}
	}
	assert.False(t, signalled())
	for _, uid := range []types.UID{"b", "a", "b", "c"} {
		s.Mark(uid)
	}
	s.Drop("c")
	s.Drop("never marked")
	assert.True(t, signalled())
	assert.Equal(t, []types.UID{"b", "a"}, s.Take())
	assert.Empty(t, s.Take())
	assert.False(t, signalled())
	s.Mark("a")
	assert.True(t, signalled(), "a pod that was taken can be marked again")
	assert.Equal(t, []types.UID{"a"}, s.Take())
}
