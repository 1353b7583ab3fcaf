// SPDX-License-Identifier: Apache-2.0

package signal

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestManyNoticesAreOne(t *testing.T) {
	s := New()
	for range 3 {
		s.Notify()
	}
	<-s
	select {
	case <-s:
		t.Error("a second notice")
	default:
	}
	s.Notify()
	assert.Len(t, s, 1)
}
