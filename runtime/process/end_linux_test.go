// SPDX-License-Identifier: Apache-2.0

//go:build amd64 && !noseccomp

package process_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// endedAsleep waits until the shim of a container has ended, and reports whether it has recorded the end
// without a program of Go.
func (e *env) endedAsleep(id runtime.ContainerID) bool {
	e.Helper()
	shim := e.process(id).Shim
	e.until("the shim is gone", func() bool { return !shim.Alive() })
	_, err := os.Stat(filepath.Join(e.folder(id), record.EndFile))
	return err == nil
}

// TestEndAsleep: a shim that dozes records the end of its container itself, unless there is output, a
// process that is left, or a command of Exec.
func TestEndAsleep(t *testing.T) {
	const ready = ": > ready; "
	for name, tt := range map[string]struct {
		script string
		grace  time.Duration // 0: the container ends by itself
		exec   bool
		code   int32
		awake  bool
	}{
		"exit":                   {script: "exit 7", code: 7},
		"signal":                 {script: "kill -SEGV $$", code: 128 + 11},
		"stop":                   {script: "mkfifo never; exec 4<>never; trap 'exit 5' TERM; " + ready + "read x <&4", grace: time.Minute, code: 5},
		"stop signal":            {script: ready + "exec sleep 1000", grace: time.Minute, code: 128 + 15},
		"kill":                   {script: "trap '' TERM; " + ready + "exec sleep 1000", grace: time.Millisecond, code: 128 + 9},
		"a process of the group": {script: "sleep 1000 & exit 3", code: 3},
		"a process outside":      {script: "setsid sleep 1000 & sleep 0.1; exit 4", code: 4, awake: true},
		"output":                 {script: "echo last; exit 6", code: 6, awake: true},
		"output on the way":      {script: "printf half; " + ready + "exec sleep 1000", grace: time.Minute, code: 128 + 15, awake: true},
		"exec":                   {script: ready + "exec sleep 1000", exec: true, grace: time.Minute, code: 128 + 15, awake: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pod := e.pod(tt.script)
			_, id := e.run(pod)
			if tt.grace > 0 {
				e.until("it is ready", func() bool {
					_, err := os.Stat(filepath.Join(e.folder(id), "work", "ready"))
					return err == nil
				})
				if tt.exec {
					_, _, _, err := e.rt.Exec(t.Context(), id, []string{"true"})
					require.NoError(t, err)
				}
				require.NoError(t, e.rt.StopContainer(t.Context(), id, tt.grace))
			}
			asleep := e.endedAsleep(id)
			for try := 0; !asleep && name == "a process of the group" && try < 9; try++ {
				// On a busy machine, the process that the shim has killed was still there when the shim looked.
				pod = e.pod(tt.script)
				_, id = e.run(pod)
				asleep = e.endedAsleep(id)
			}
			assert.Equal(t, !tt.awake, asleep)
			e.rt = e.open(process.Options{}) // an agent that has seen nothing of this
			c := e.exited(pod)
			assert.Equal(t, tt.code, c.ExitCode)
			assert.Equal(t, runtime.ReasonError, c.Reason)
			assert.False(t, c.FinishedAt.Before(c.StartedAt))
			assert.Empty(t, e.processes(id))
			assert.Equal(t, c, e.status(pod))
		})
	}
}

// TestEndAsleepWithMessage: the reader of the end adds the termination message and keeps it.
func TestEndAsleepWithMessage(t *testing.T) {
	e := newEnv(t)
	pod := e.pod(`echo because > "$KEELSON_ROOT/dev/termination-log"; exit 1`)
	pod.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
	_, id := e.run(pod)
	require.True(t, e.endedAsleep(id))
	before := e.status(pod)
	assert.Equal(t, "because\n", before.Message)
	require.NoError(t, os.RemoveAll(filepath.Join(e.folder(id), "work")))
	assert.Equal(t, before, e.status(pod))
}

// TestDamagedEnd: no single damage to the records of a shim that has ended asleep changes the exit code.
func TestDamagedEnd(t *testing.T) {
	for _, file := range []string{record.EndFile, record.LockFile, record.ExitFile, record.ReservedFile} {
		for how, damage := range damages {
			t.Run(file+"/"+how, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				pod := e.pod("exit 7")
				_, id := e.run(pod)
				require.True(t, e.endedAsleep(id))
				path := filepath.Join(e.folder(id), file)
				if _, err := os.Lstat(path); err != nil {
					require.NoError(t, os.WriteFile(path, nil, 0o600))
				}
				require.NoError(t, damage(path))
				for range 2 {
					assert.Equal(t, int32(7), e.exited(pod).ExitCode)
					e.rt = e.open(process.Options{})
				}
			})
		}
	}
}

// TestForgedEnd: a container cannot write its end before the kernel does.
func TestForgedEnd(t *testing.T) {
	for _, forge := range []string{
		`echo '{"code":0,"reason":"Completed","finishedAt":"2026-01-01T00:00:00Z"}' >../exit.json; exit 7`,
		`cp /proc/self/stat ../end; cp ../end ../shim.log; exit 7`,
		`rm ../shim.log; mkdir -p ../end/x ../shim.log/x ../exit.json/x ../.exit.json.tmp/x; exit 7`,
		`rm -f ../.exit.json.tmp ../shim.log; mkfifo ../.exit.json.tmp ../shim.log; exit 7`,
		`rm -f ../.exit.json.tmp; mkfifo ../end; exit 7`,
		`rm -f ../.exit.json.tmp; ln -s /dev/null ../.exit.json.tmp; exit 7`,
		`rm -f ../.exit.json.tmp; ln -s /dev/null ../end; exit 7`,
	} {
		e := newEnv(t)
		pod := e.pod(forge)
		_, id := e.run(pod)
		e.endedAsleep(id)
		assert.Equal(t, int32(7), e.exited(pod).ExitCode, forge)
	}
}
