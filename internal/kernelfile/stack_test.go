// SPDX-License-Identifier: Apache-2.0

//go:build !race

package kernelfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// The buffer of a small file stays on the stack, except under the race detector.
func TestAppendAllocatesNoBuffer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("a 1\nb 2\n"), 0o600))
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		var buffer [kernelfile.Size]byte
		if data, err := kernelfile.Append(buffer[:0], path); err != nil || len(data) != 8 {
			t.Fail()
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(runs*kernelfile.Size/2))
}
