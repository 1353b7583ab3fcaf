// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/logs"
)

// A log is rotated repeatedly under a constant writer. No line is lost, duplicated or reordered.
func TestRotationUnderAWriter(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	// It rests after each thousand lines: on a busy machine the log grew faster than the test could read it.
	p := pod("writer", `trap stop=yes TERM; i=0
		while [ -z "$stop" ]; do echo line $i; echo error $i >&2; i=$((i+1)); [ $((i % 1000)) != 0 ] || sleep 0.1; done; echo last $i`)
	p.Spec.HostNetwork = true
	id := n.start(p)
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	path := st.Containers[0].LogPath
	rotator, err := logs.NewRotator(logs.RotatorOptions{
		Reopener: n.rt, MaxSize: 10 << 10, MaxFiles: 1000,
		Logs: logs.RunningLogs(n.rt),
	})
	require.NoError(t, err)
	n.await(func() bool {
		// Rotate, not RotateAll, which would rotate other tests' logs, too.
		require.NoError(t, rotator.Rotate(t.Context(), logs.Log{ID: id, Path: path}))
		compressed, err := filepath.Glob(path + ".*.gz")
		require.NoError(t, err)
		return len(compressed) >= 3
	})
	require.NoError(t, n.rt.StopContainer(t.Context(), id, time.Minute))

	var got [2]bytes.Buffer
	lines := 0
	n.await(func() bool { // the last lines may come a moment after the exit
		got[0].Reset()
		got[1].Reset()
		result, err := logs.Read(t.Context(), logs.Request{Path: path, Stdout: &got[0], Stderr: &got[1]})
		require.NoError(t, err)
		require.Zero(t, result.Malformed)
		text := got[0].String()
		_, err = fmt.Sscanf(text[strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n')+1:], "last %d\n", &lines)
		return err == nil && strings.HasSuffix(got[1].String(), fmt.Sprintf("error %d\n", lines-1))
	})
	t.Logf("%d lines", 2*lines)
	var want [2]strings.Builder
	for i := range lines {
		fmt.Fprintf(&want[0], "line %d\n", i)
		fmt.Fprintf(&want[1], "error %d\n", i)
	}
	fmt.Fprintf(&want[0], "last %d\n", lines)
	for i := range got {
		require.True(t, got[i].String() == want[i].String(), "stream %d is not what was written: %d bytes of %d", i, got[i].Len(), want[i].Len())
	}
}

// Rotation with few small files keeps up with a writer and removes the oldest files.
func TestRotationKeepsFewFiles(t *testing.T) {
	t.Parallel()
	n := newNode(t, cri.Options{})
	p := pod("few", "trap 'exit 0' TERM; i=0; while :; do echo line $i; i=$((i+1)); done")
	p.Spec.HostNetwork = true
	id := n.start(p)
	st, err := n.rt.PodStatus(t.Context(), p.UID)
	require.NoError(t, err)
	path := st.Containers[0].LogPath
	rotator, err := logs.NewRotator(logs.RotatorOptions{Reopener: n.rt, MaxSize: 10 << 10, MaxFiles: 3, Logs: logs.RunningLogs(n.rt)})
	require.NoError(t, err)
	var first []string
	n.await(func() bool {
		require.NoError(t, rotator.Rotate(t.Context(), logs.Log{ID: id, Path: path}))
		rotated, err := filepath.Glob(path + ".*")
		require.NoError(t, err)
		require.LessOrEqual(t, len(rotated), 2)
		if len(rotated) < 2 {
			return false
		}
		if first == nil {
			first = rotated
		}
		return rotated[0] > first[1] // all of the first are gone
	})
	require.NoError(t, n.rt.StopContainer(t.Context(), id, 0))
	assert.NoError(t, rotator.Rotate(t.Context(), logs.Log{ID: id, Path: path}), "one that has just ended is no error")
}
