// SPDX-License-Identifier: Apache-2.0

//go:build amd64 && !noseccomp

package process_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// TestAgentDiesDuringStart: a start that an agent leaves behind ends without a trace, and the
// container can be started, unless its program was not executed for a reason of its own.
func TestAgentDiesDuringStart(t *testing.T) {
	for name, opts := range map[string]process.Options{"open": {}, "confined": {Confine: true}} {
		for at, moment := range map[string]int{"fork": process.DieAtFork, "record": process.DieAtRecord} {
			t.Run(name+"/"+at, func(t *testing.T) {
				e := newEnv(t)
				e.rt = e.open(opts)
				pod := e.pod("touch ran; exec sleep 1000")
				id := e.create(pod, e.sandbox(pod), 0)
				require.NoError(t, process.DieAt(e.rt, id, moment))
				e.until("it is created again", func() bool { return e.status(pod).State == runtime.StateCreated })
				assert.NoFileExists(t, filepath.Join(e.folder(id), record.ProcessFile))
				assert.NoFileExists(t, filepath.Join(e.folder(id), "work", "ran"))
				require.NoError(t, e.rt.StartContainer(t.Context(), id))
				e.until("it runs", func() bool {
					_, err := os.Stat(filepath.Join(e.folder(id), "work", "ran"))
					return err == nil
				})
			})
		}
		t.Run(name+"/begin", func(t *testing.T) {
			e := newEnv(t)
			e.rt = e.open(opts)
			pod := e.pod("")
			pod.Spec.Containers[0].Command = []string{"./text"}
			id := e.create(pod, e.sandbox(pod), 0)
			require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "text"), []byte("no program"), 0o755))
			require.NoError(t, process.DieAt(e.rt, id, process.DieAtBegin))
			c := e.exited(pod)
			assert.Equal(t, int32(128), c.ExitCode)
			assert.Equal(t, "StartError", c.Reason)
			assert.Contains(t, c.Message, "exec format error")
			require.NoError(t, e.rt.StopContainer(t.Context(), id, 0), "the shim is gone")
		})
	}
}

// TestStartIsNoLeftover: a main process that has not executed its program has the arguments of its
// shim, and lives in another folder. It is no orphaned shim, whose container would be killed.
func TestStartIsNoLeftover(t *testing.T) {
	for name, opts := range map[string]process.Options{"open": {}, "confined": {Confine: true}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.rt = e.open(opts)
			pod := e.pod("exec sleep 1000")
			id := e.create(pod, e.sandbox(pod), 0)
			require.NoError(t, process.PauseAt(e.rt, id, process.DieAtRecord, func() {
				assert.Empty(t, e.leftovers(e.rt))
			}))
		})
	}
}

// TestNoProgramOfGoStarts: a container without output has a shim that dozes from the start.
func TestNoProgramOfGoStarts(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("exec sleep 1000")
	_, id := e.run(pod)
	e.asleep(id)
	raw, err := os.ReadFile(filepath.Join(e.folder(id), record.LockFile))
	require.NoError(t, err)
	assert.Empty(t, string(raw))
	assert.LessOrEqual(t, ownPrivateMemory(t, e.process(id).Shim.PID), 64*os.Getpagesize()/4096, "KiB")
}
