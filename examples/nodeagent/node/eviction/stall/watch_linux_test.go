// SPDX-License-Identifier: Apache-2.0

package stall_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction/stall"
)

func TestWatch(t *testing.T) {
	_, err := stall.Watch(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake, err := stall.Watch(ctx, "/proc/pressure/cpu")
	if err != nil {
		t.Skipf("this machine has no triggers: %v", err)
	}
	for range 2 { // more goroutines than cores stall
		busy, idle := context.WithTimeout(ctx, time.Minute)
		for range 4 * runtime.NumCPU() {
			go func() {
				for busy.Err() == nil {
				}
			}()
		}
		select {
		case <-wake:
		case <-busy.Done():
			t.Fatal("no event")
		}
		idle()
	}
	cancel()
}

// A machine without PSI has no file of stalls.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := stall.Watch(ctx, "/nonexistent"); err != nil {
		fmt.Println(os.IsNotExist(err))
	}
	// Output: true
}
