// SPDX-License-Identifier: Apache-2.0

package keelson

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// partsManifest is a pod that says in a file what it finds, as which process, and waits to be stopped.
const partsManifest = `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {terminationGracePeriodSeconds: 5,
  volumes: [{name: c, configMap: {name: config}}, {name: d, emptyDir: {}}],
  containers: [{name: c, image: none, volumeMounts: [{name: c, mountPath: /config}, {name: d, mountPath: /data}],
    readinessProbe: {exec: {command: [/bin/true]}, periodSeconds: 1},
    command: [/bin/sh, -c, "trap 'echo end >> %[1]s; exit 0' TERM; echo %[2]s $$$$ $(cat $KEELSON_ROOT%[3]s) >> %[1]s; while :; do sleep 0.1 & wait $!; done"]}]}}`

// output is what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// runPartsAgent runs the agent of docs/embedding.md through a day: a pod with a probe and volumes, one that crashes, one
// whose command does not exist, a kill, an edit, a removal, and the end.
func runPartsAgent(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	pods, state, configs, sign := filepath.Join(dir, "pods"), filepath.Join(dir, "state"), filepath.Join(dir, "configs"), filepath.Join(dir, "sign")
	for _, folder := range []string{pods, configs} {
		require.NoError(t, os.Mkdir(folder, 0o755))
	}
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	write(filepath.Join(configs, "config"), "configured")
	manifest := func(marker string) {
		write(filepath.Join(pods, "web.yaml"), fmt.Sprintf(partsManifest, sign, marker, "/config/value"))
	}
	manifest("one")
	for i, doc := range strings.Split(interruptManifests, "---\n")[1:] {
		write(filepath.Join(pods, strconv.Itoa(i)+".yaml"), doc)
	}
	out := &output{}
	cmd := exec.CommandContext(t.Context(), program, pods, state, configs)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	lines := func() []string {
		text, _ := os.ReadFile(sign)
		return strings.Fields(strings.ReplaceAll(string(text), " ", "_"))
	}
	eventually := func(what string, f func() bool) {
		t.Helper()
		require.Eventually(t, f, time.Minute, 50*time.Millisecond, "%s\n%s\n%s", what, lines(), out)
	}
	began := func(marker string, n int) func() bool {
		return func() bool {
			count := 0
			for _, line := range lines() {
				if strings.HasPrefix(line, marker+"_") && strings.HasSuffix(line, "_configured") {
					count++
				}
			}
			return count == n
		}
	}
	eventually("the pod starts, with its ConfigMap", began("one", 1))
	eventually("its probe makes it ready", func() bool { return strings.Contains(out.String(), "web-edge Running true") })
	eventually("the others are tried", func() bool {
		return strings.Contains(out.String(), "crash-edge Running false") && strings.Contains(out.String(), "missing-edge ")
	})

	pid, err := strconv.Atoi(strings.Split(lines()[0], "_")[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually("a container that was killed is started again", began("one", 2))

	manifest("two")
	eventually("an edited manifest takes effect", began("two", 1))
	require.Contains(t, lines(), "end", "the one before was stopped with its grace period")

	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), "%s", out)
	require.Equal(t, "end", lines()[len(lines())-1])
	require.Empty(t, processesOf(t, program), "left behind\n%s", out)
	require.NotContains(t, out.String(), "panic")
}
