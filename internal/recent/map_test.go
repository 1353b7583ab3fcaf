// SPDX-License-Identifier: Apache-2.0

package recent

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValuesStayWhileTheyAreUsed(t *testing.T) {
	var m Map[string, int]
	*m.Get("a"), *m.Get("b") = 1, 2
	m.Forget()
	assert.Equal(t, 1, *m.Get("a"))
	m.Forget()
	assert.Equal(t, 1, *m.Get("a"))
	assert.Zero(t, *m.Get("b"), "it was not used between two calls of Forget")
}

func TestOtherValuesTakeNoMemory(t *testing.T) {
	var m Map[int, int]
	for range 100 {
		m.Get(-1)
		m.Get(rand.IntN(1000))
		m.Forget()
	}
	m.Forget()
	require.Empty(t, m.all)
	m.Get(-1)
	m.Forget()
	require.Len(t, m.all, 1)
}
