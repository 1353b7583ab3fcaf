// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// interruptManifests are pods of which one runs, one crashes, and one has a command that does not exist.
const interruptManifests = `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 2, volumes: [{name: d, emptyDir: {}}, {name: c, configMap: {name: config}}],
  containers: [{name: c, image: none, command: [/bin/sleep, "1000"], volumeMounts: [{name: d, mountPath: /data}, {name: c, mountPath: /config}],
    livenessProbe: {exec: {command: [/bin/true]}, periodSeconds: 1}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: crash}, spec: {containers: [{name: c, image: none, command: [/bin/false]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: missing}, spec: {containers: [{name: c, image: none, command: [/nonexist]}]}}
`

// instants is how many times each program is interrupted: 4, or 200 with KEELSON_SOAK=1.
func instants() int {
	if os.Getenv("KEELSON_SOAK") == "1" {
		return 200
	}
	return 4
}

// interruptPrograms interrupts each program at random instants. It ends without a panic, and no process of it is left.
func interruptPrograms(t *testing.T, programs []string) {
	t.Helper()
	for _, program := range programs {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range instants() {
			after := time.Duration(rng.Int64N(int64(1500 * time.Millisecond)))
			t.Run(fmt.Sprintf("%s %d after %v", filepath.Base(program), i, after.Round(time.Millisecond)), func(t *testing.T) {
				interrupt(t, program, after)
			})
		}
	}
}

func interrupt(t *testing.T, program string, after time.Duration) {
	dir := t.TempDir()
	for _, folder := range []string{"pods", "state", "configs"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	for i, doc := range strings.Split(interruptManifests, "---\n") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pods", strconv.Itoa(i)+".yaml"), []byte(doc), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "configs", "config"), []byte("value"), 0o644))
	var out bytes.Buffer
	args := []string{filepath.Join(dir, "pods"), filepath.Join(dir, "state"), filepath.Join(dir, "configs")}
	if text, err := os.ReadFile(program + ".go"); err == nil && strings.Contains(string(text), "len(os.Args) != 3") {
		args = args[:2]
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	time.Sleep(after) // the instant is random, and nothing below depends on it
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	err := cmd.Wait()
	if exit, ok := err.(*exec.ExitError); ok && exit.Sys().(syscall.WaitStatus).Signaled() {
		err = nil // before the program asked for signals
	}
	require.NoError(t, err, "%s", &out)
	assert.NotContains(t, out.String(), "panic")
	assert.Empty(t, processesOf(t, program), "left behind\n%s", &out)
}

// processesOf lists the processes that run a program, as agent or as shim.
func processesOf(t *testing.T, program string) (left []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.TrimSuffix(target, " (deleted)") == program {
			left = append(left, link)
		}
	}
	return left
}
