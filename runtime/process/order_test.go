// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// TestBrokenSandboxIsReplacedOnce: a sandbox with a torn record stays older than its replacement
// after every change in its folder and of the clock.
func TestBrokenSandboxIsReplacedOnce(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exec sleep 1000")
	broken := e.sandbox(pod)
	torn := e.create(pod, broken, 0)
	folder := filepath.Dir(e.folder(torn))
	require.NoError(t, os.Truncate(filepath.Join(folder, record.SandboxFile), 0))
	require.NoError(t, os.Truncate(filepath.Join(e.folder(torn), record.SpecFile), 0))

	st := e.seen(pod)
	check := runtime.CheckSandbox(pod, st)
	require.True(t, check.Changed, "%+v", st)
	require.Equal(t, uint32(1), check.Attempt)
	require.NoError(t, e.rt.StopSandbox(t.Context(), broken))
	sandbox, err := e.rt.RunSandbox(t.Context(), runtime.SandboxSpec{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Pod: pod, Attempt: check.Attempt,
		LogDirectory: filepath.Join(e.logs, string(pod.UID)),
	})
	require.NoError(t, err)
	id := e.create(pod, sandbox, 1)
	require.NoError(t, e.rt.StartContainer(t.Context(), id))

	for _, touched := range []time.Time{time.Now(), time.Now().Add(24 * time.Hour)} {
		for _, path := range []string{folder, e.folder(torn)} {
			require.NoError(t, os.Mkdir(filepath.Join(path, "x"), 0o700)) // as the collection of a leftover does
			require.NoError(t, os.Remove(filepath.Join(path, "x")))
			require.NoError(t, os.Chtimes(path, touched, touched))
		}
		st = e.seen(pod)
		check = runtime.CheckSandbox(pod, st)
		assert.False(t, check.Changed, check.Message)
		assert.Equal(t, sandbox, check.ID)
		assert.Equal(t, id, st.Latest("c").ID)
		assert.Equal(t, []runtime.SandboxID{sandbox, broken}, []runtime.SandboxID{st.Sandboxes[0].ID, st.Sandboxes[1].ID})
	}
}

// TestBrokenNewestIsNewest: numbers go on from those of a broken sandbox and instance.
func TestBrokenNewestIsNewest(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exit 0")
	_, old := e.run(pod)
	e.exited(pod)
	sandbox, err := e.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Attempt: 1})
	require.NoError(t, err)
	torn := e.create(pod, sandbox, 1)
	require.NoError(t, os.Truncate(filepath.Join(e.folder(torn), "..", record.SandboxFile), 0))
	require.NoError(t, os.Truncate(filepath.Join(e.folder(torn), record.SpecFile), 0))
	for _, path := range []string{filepath.Dir(e.folder(torn)), e.folder(torn)} {
		require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	}
	st := e.seen(pod)
	check := runtime.CheckSandbox(pod, st)
	assert.True(t, check.Changed)
	assert.Equal(t, uint32(2), check.Attempt)
	assert.Equal(t, torn, st.Latest("c").ID)
	assert.Equal(t, old, st.Containers[1].ID)
}
