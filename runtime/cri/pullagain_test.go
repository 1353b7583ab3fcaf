// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/runtime"
)

// Containerd 1.6 fails a pull whose image is removed meanwhile under another name: "failed to
// create image reference "sha256:…": not found".
func TestPullThatARemovalGotInTheWayOfIsMadeAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		losses  int32 // how many pulls lose their image
		removes bool  // while an image is removed
		code    codes.Code
		pulls   int
		fails   bool
	}{
		"one is lost":                 {1, true, codes.NotFound, 2, false},
		"all are lost":                {100, true, codes.NotFound, maxPulls, true},
		"nothing was removed":         {1, false, codes.NotFound, 1, true},
		"something else is the cause": {1, true, codes.PermissionDenied, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			rt := s.dial(t)
			var lost atomic.Int32
			s.inTheWay(func(_ context.Context, call string) error {
				if call != "PullImage" || lost.Add(1) > tc.losses {
					return nil
				}
				if tc.removes {
					_ = rt.RemoveImage(t.Context(), "sha256:1")
				}
				return status.Error(tc.code, `failed to create image reference "sha256:1": not found`)
			})
			id, err := rt.PullImage(t.Context(), "localhost/twin:1", nil)
			assert.Equal(t, tc.pulls, s.count("PullImage"))
			if !tc.fails {
				require.NoError(t, err)
				assert.Equal(t, "sha256:1", id)
				return
			}
			require.ErrorContains(t, err, "failed to create image reference")
			require.NotErrorIs(t, err, runtime.ErrNotFound)
		})
	}
}

// A removal under way before the pull counts, a removal ended before the pull does not.
func TestRemovalsAreWatchedFromTheBeginning(t *testing.T) {
	var r removals
	assert.False(t, r.watch()())
	end := r.begin()
	seen := r.watch()
	end()
	assert.True(t, seen())
	assert.False(t, r.watch()())
	seen = r.watch()
	r.begin()()
	assert.True(t, seen())
}
