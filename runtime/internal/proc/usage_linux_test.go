// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseUsage(t *testing.T) {
	const text = "42 (a ) b) S 7 42 42 0 -1 4194560 100 200 3 4 50 60 70 80 20 0 5 0 12345 1000000 25 18446744073709551615 1 1 0 0"
	got, err := parseUsage([]byte(text))
	require.NoError(t, err)
	page := uint64(os.Getpagesize())
	assert.Equal(t, processUsage{
		parent: 7,
		own:    Usage{CPU: 1100 * time.Millisecond, RSS: 25 * page, PageFaults: 100, MajorPageFaults: 3, Processes: 1},
		ended:  Usage{CPU: 1500 * time.Millisecond, PageFaults: 200, MajorPageFaults: 4},
	}, got)
	for _, bad := range []string{"", "42 (a) S 7", "42 (a) S x 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 5 0 12345 1000000 25 0"} {
		_, err := parseUsage([]byte(bad))
		assert.Error(t, err, bad)
	}
}

// The usage of a process's children is the parent's after the children have ended, too.
func TestUsageBelow(t *testing.T) {
	const busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	in, write, err := os.Pipe()
	require.NoError(t, err)
	defer write.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "("+busy+"); sh -c 'read x' & wait")
	cmd.Stdin = in
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	late := time.Now().Add(time.Minute)
	for {
		all, err := UsageBelow([]int{os.Getpid(), cmd.Process.Pid, 0})
		require.NoError(t, err)
		mine, below := all[os.Getpid()], all[cmd.Process.Pid]
		if below.CPU > 0 && below.Processes > 0 {
			assert.GreaterOrEqual(t, mine.CPU, below.CPU)
			assert.Greater(t, mine.Processes, below.Processes)
			assert.Greater(t, mine.RSS, below.RSS)
			assert.Positive(t, below.RSS)
			assert.Positive(t, below.PageFaults)
			return
		}
		require.False(t, time.Now().After(late), "%+v", below)
		time.Sleep(10 * time.Millisecond)
	}
}
