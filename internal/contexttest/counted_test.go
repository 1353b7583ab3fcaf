// SPDX-License-Identifier: Apache-2.0

package contexttest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/keelson-dev/keelson/internal/contexttest"
)

func TestCounted(t *testing.T) {
	parent, end := context.WithCancel(t.Context())
	c := contexttest.New(parent)
	one, cancelOne := context.WithCancel(c)
	two, cancelTwo := context.WithTimeout(one, time.Hour)
	stop := context.AfterFunc(c, func() {})
	assert.Equal(t, 2, c.Waiting(), "two waits for the end of one")
	cancelTwo()
	cancelOne()
	assert.True(t, stop())
	assert.Zero(t, c.Waiting())

	kept, cancelKept := context.WithCancel(c)
	defer cancelKept()
	end()
	<-kept.Done()
	assert.ErrorIs(t, two.Err(), context.Canceled)
}
