// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPauseBetweenLooks(t *testing.T) {
	looks, at := 0, time.Duration(0)
	for ; at <= 10*time.Second; looks++ {
		at += pauseBetweenLooks(at)
	}
	assert.Equal(t, 11, looks, "looks in the first 10 s")
	assert.Equal(t, 12*time.Second, pauseBetweenLooks(2*time.Minute))
	assert.Equal(t, cleanInterval, pauseBetweenLooks(time.Hour))
}
