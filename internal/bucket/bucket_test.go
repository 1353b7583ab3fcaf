// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/bucket"
)

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestBucketBounds: in any time T at most Burst + T/interval requests are charged, and one is due whenever fewer were.
func TestBucketBounds(t *testing.T) {
	const interval = 10 * time.Second
	rng := rand.New(rand.NewPCG(3, 14))
	for range 100 {
		var b bucket.Bucket
		now, charged := dawn, []time.Time{}
		for range 200 {
			now = now.Add(time.Duration(rng.Int64N(int64(8 * time.Second))))
			if b.Due(interval).After(now) {
				continue
			}
			b.Charge(now, interval)
			charged = append(charged, now)
		}
		for i := range charged {
			for j := i; j < len(charged); j++ {
				require.LessOrEqual(t, j-i+1, bucket.Burst+int(charged[j].Sub(charged[i])/interval))
			}
		}
	}
}

func TestBucketRefills(t *testing.T) {
	const interval = 10 * time.Second
	var b bucket.Bucket
	assert.True(t, b.Full(dawn))
	for range bucket.Burst {
		assert.False(t, b.Due(interval).After(dawn))
		b.Charge(dawn, interval)
	}
	assert.Equal(t, dawn.Add(interval), b.Due(interval))
	assert.False(t, b.Full(dawn.Add(bucket.Burst*interval-1)))
	assert.True(t, b.Full(dawn.Add(bucket.Burst*interval)))
}
