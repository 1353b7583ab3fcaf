// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// pastaThat returns an env whose pasta is a shell script. The script finds the file for its PID in $pid.
func pastaThat(t *testing.T, script string) *networkEnv {
	e := newIsolated(t)
	n := &networkEnv{env: e, opts: process.Options{Confine: true, Pasta: filepath.Join(t.TempDir(), "pasta")}}
	script = "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = --pid ] && pid=$2; shift; done\n" + script
	require.NoError(t, os.WriteFile(n.opts.Pasta, []byte(script), 0o755))
	e.rt = e.open(n.opts)
	return n
}

// TestPastaThatTalks has a pasta that writes errors without end, as a hostile pod may make it do. No disk is filled.
func TestPastaThatTalks(t *testing.T) {
	n := pastaThat(t, "echo 1 > $pid; while :; do echo all the same >&2; done")
	pod := n.pod("")
	sandbox := n.sandbox(pod)
	time.Sleep(time.Second)
	assert.True(t, n.ready(pod))
	size := int64(0)
	require.NoError(t, filepath.WalkDir(n.root, func(_ string, d fs.DirEntry, err error) error {
		if info, infoErr := d.Info(); err == nil && infoErr == nil {
			size += info.Size()
		}
		return err
	}))
	assert.Less(t, size, int64(1<<20))
	require.NoError(t, n.rt.RemoveSandbox(t.Context(), sandbox))
	assert.Empty(t, n.alive())
}

// TestPastaThatFails has a pasta whose last words are the reason.
func TestPastaThatFails(t *testing.T) {
	n := pastaThat(t, "echo not this >&2; echo Failed to send 5 bytes to syslog >&2; echo no route out >&2; echo Failed to send 7 bytes to syslog >&2; exit 1")
	pod := n.pod("")
	_, err := n.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Pod: pod})
	require.ErrorContains(t, err, "pod network: pasta: no route out")
	assert.NotContains(t, err.Error(), "syslog")
	assert.False(t, strings.Contains(err.Error(), "not this"))
	assert.Empty(t, n.seen(pod).Sandboxes)
}

// TestPastaThatHangs has a pasta that is never ready. A start ends with its context.
func TestPastaThatHangs(t *testing.T) {
	n := pastaThat(t, "echo $$ > $0.pid; exec sleep 1000")
	pod := n.pod("")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := n.rt.RunSandbox(ctx, runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Pod: pod})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 10*time.Second)
	assert.Empty(t, n.seen(pod).Sandboxes)
	n.until("all processes end", func() bool { return len(n.alive()) == 0 })
	raw, err := os.ReadFile(n.opts.Pasta + ".pid")
	require.NoError(t, err)
	n.until("pasta ends", func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(raw)))
		return err != nil
	})
}

func TestPastaOptions(t *testing.T) {
	_, err := process.New(process.Options{Root: t.TempDir(), Pasta: "pasta"})
	assert.ErrorContains(t, err, `Options.Pasta: "pasta" is not absolute`)
	_, err = process.New(process.Options{Root: t.TempDir(), Pasta: "/usr/bin/pasta"})
	assert.ErrorContains(t, err, "Options.Pasta: needs Options.Confine and namespaces")
}
