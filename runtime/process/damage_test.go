// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// damages are the ways to damage a file.
var damages = map[string]func(path string) error{
	"truncated": func(path string) error { return os.Truncate(path, 10) },
	"garbage":   func(path string) error { return os.WriteFile(path, []byte("\x00\xff{]"), 0o600) },
	"removed":   os.RemoveAll,
	"folder": func(path string) error {
		return errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
	},
	"huge": func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 4<<30)) // sparse
	},
	"foreign": func(path string) error { return errors.Join(os.Chmod(path, 0), os.Chown(path, 65534, 65534)) },
	"fifo": func(path string) error {
		return errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600))
	},
	"empty object": func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
}

// TestDamagedRecordChangesNothing: after damage to a record of a pod the status is unchanged, so
// nothing is restarted. The record is repaired, and the pod can be stopped and removed.
func TestDamagedRecordChangesNothing(t *testing.T) {
	running := []string{record.SpecFile, record.ProcessFile, record.LockFile, "../" + record.SandboxFile,
		record.ExecFile, record.ExitFile, ".exit.json.tmp"} // the last three are not there: they are planted
	exited := []string{record.ProcessFile, record.LockFile, "../" + record.SandboxFile, record.ExitFile}
	for name, files := range map[string][]string{"exec sleep 1000": running, "exit 0": exited} {
		for _, file := range files {
			for how := range damages {
				t.Run(name+"/"+file+"/"+how, func(t *testing.T) {
					t.Parallel()
					damage(t, name, file, damages[how])
				})
			}
		}
	}
}

func damage(t *testing.T, script, file string, do func(path string) error) {
	e := newEnv(t)
	pod := e.pod(script)
	pod.Annotations = map[string]string{"a": "b"}
	sandbox, id := e.run(pod)
	if script == "exit 0" {
		e.exited(pod)
		e.until("its shim is gone, too", func() bool { return !e.process(id).Shim.Alive() })
	}
	before := e.seen(pod)
	main := e.process(id).Main
	path := filepath.Join(e.folder(id), file)
	if _, err := os.Lstat(path); err != nil {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	require.NoError(t, do(path))

	e.rt = e.open(process.Options{}) // an agent that knows nothing from before
	for range 3 {
		after := e.seen(pod)
		if file == record.ProcessFile && script == "exit 0" {
			after.Containers[0].StartedAt = before.Containers[0].StartedAt // is lost with it
		}
		require.Equal(t, before, after)
	}
	require.Error(t, e.rt.StartContainer(t.Context(), id))
	if script != "exit 0" {
		_, _, code, err := e.rt.Exec(t.Context(), id, []string{"true"})
		require.NoError(t, err)
		assert.Zero(t, code)
		require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
		assert.Equal(t, int32(128+15), e.status(pod).ExitCode, "its true exit code")
	}
	assert.False(t, main.Alive())
	require.NoError(t, e.rt.RemoveSandbox(t.Context(), sandbox))
	assert.NoDirExists(t, filepath.Dir(filepath.Dir(e.folder(id))))
}

// TestHostileContainer: a container that destroys and forges all its records at once continues, is
// visible to its agent, and can be stopped.
func TestHostileContainer(t *testing.T) {
	for name, attack := range map[string]string{
		"removes":  `rm -rf ../shim.log ../pid.json ../spec.json ../exit.json`,
		"replaces": `for f in shim.log pid.json spec.json exit.json; do rm -f ../$f; mkdir -p ../$f/x; done`,
		"forges": `echo '{"code":0,"reason":"Completed"}' >../exit.json; rm ../shim.log; : >../shim.log
			echo "{\"bootID\":\"$(cat /proc/sys/kernel/random/boot_id)\",\"shim\":{\"pid\":1},\"main\":{\"pid\":1}}" >../pid.json`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pod := e.pod(`while [ ! -e go ]; do sleep 0.01; done; ` + attack + `; echo attacked; exec sleep 1000`)
			_, id := e.run(pod)
			before, p := e.seen(pod), e.process(id)
			require.NoError(t, os.WriteFile(filepath.Join(e.folder(id), "work", "go"), nil, 0o600))
			e.awaitLog(pod, "attacked")
			for range 3 {
				require.Equal(t, before, e.seen(pod))
				e.rt = e.open(process.Options{})
			}
			require.Error(t, e.rt.StartContainer(t.Context(), id), "it is not started a second time")
			require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
			assert.False(t, p.Main.Alive())
			assert.False(t, p.Shim.Alive())
			c := e.status(pod)
			assert.Equal(t, runtime.StateExited, c.State)
			assert.Equal(t, int32(128+15), c.ExitCode, "its true exit code")
		})
	}
}
