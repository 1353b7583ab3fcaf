// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// leftovers is what is left on the node of pods that were.
func (w *world) leftovers(v *view) (left []string) {
	for _, s := range v.sandboxes {
		left = append(left, "sandbox "+s.GetId()+" of "+s.GetMetadata().GetName())
	}
	for _, c := range v.containers {
		left = append(left, "container "+c.GetId()+" "+c.GetMetadata().GetName())
	}
	pids := w.engine.c.PIDs()
	if len(pids.Shims)+len(pids.Containers) > 0 {
		left = append(left, fmt.Sprintf("processes: shims %v, in containers %v", pids.Shims, pids.Containers))
	}
	for p, pids := range w.processes() {
		left = append(left, fmt.Sprintf("processes %v of %v", pids, p))
	}
	for _, pattern := range []string{
		filepath.Join(w.root, "pods", "*"), filepath.Join(w.root, "logs", "*"), filepath.Join(w.root, "keelson", "*", "*"),
		filepath.Join(w.engine.dir(), "cni-data", "*", "[0-9]*"), // addresses
	} {
		paths, err := filepath.Glob(pattern)
		require.NoError(w, err)
		left = append(left, paths...)
	}
	left = append(left, mountsBelow(w.T, w.dir)...)
	left = append(left, mountsBelow(w.T, w.engine.dir())...)
	for id := range w.idsSeen() {
		if dirs := cgroupsOf(id); len(dirs) > 0 && !w.excusable(id, dirs) {
			left = append(left, dirs...)
		}
	}
	return left
}

// cgroupsOf are the folders of a container's or sandbox's cgroup.
func cgroupsOf(id string) (dirs []string) {
	for _, pattern := range []string{"/sys/fs/cgroup/*/k8s.io/" + id, "/sys/fs/cgroup/k8s.io/" + id} {
		paths, _ := filepath.Glob(pattern)
		dirs = append(dirs, paths...)
	}
	return dirs
}

// excusable reports whether cgroups are what runc leaves when it is killed in the
// middle of a creation, by a shim whose call was cut short as its caller died: it
// has made the cgroup and not yet noted that there is a container, so that its
// own deletion finds nothing to delete. Nothing is in them, and nobody who speaks
// CRI can know of them.
func (w *world) excusable(id string, dirs []string) bool {
	for _, dir := range dirs {
		if procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || len(procs) > 0 {
			return false
		}
	}
	log, err := os.ReadFile(w.engine.log())
	require.NoError(w, err)
	cut := false
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte(id)) {
			continue
		}
		if bytes.Contains(line, []byte("StartContainer for")) && bytes.Contains(line, []byte("returns successfully")) {
			return false
		}
		cut = cut || bytes.Contains(line, []byte("failed to read init pid file"))
	}
	return cut
}

// endCgroups removes the empty ones that were excused, and counts them.
func (w *world) endCgroups() {
	for id := range w.idsSeen() {
		dirs := cgroupsOf(id)
		if len(dirs) == 0 {
			continue
		}
		w.ledger.mu.Lock()
		w.ledger.except("an empty cgroup of a container whose creation was cut short, left by runc")
		w.ledger.mu.Unlock()
		for _, dir := range dirs {
			_ = os.Remove(dir)
		}
	}
}

// dir is where containerd has everything.
func (e *engine) dir() string { return filepath.Dir(e.c.Socket) }

func (e *engine) log() string { return filepath.Join(e.dir(), "containerd.log") }

// about are the lines of containerd's log with any of the words.
func (e *engine) about(words []string, most int) string {
	text, err := os.ReadFile(e.log())
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		for _, w := range words {
			if strings.Contains(line, w) {
				lines = append(lines, line[:min(len(line), 400)])
				break
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}
