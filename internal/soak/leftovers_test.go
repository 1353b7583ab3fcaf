// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// leftovers returns the leftovers of removed pods on the node.
func (w *world) leftovers(v *view) (left []string) {
	for _, s := range v.sandboxes {
		left = append(left, "sandbox "+s.GetId()+" of "+s.GetMetadata().GetName())
	}
	for _, c := range v.containers {
		left = append(left, "container "+c.GetId()+" "+c.GetMetadata().GetName())
	}
	cut := w.engine.cutShort()
	pids := w.engine.c.PIDs()
	for _, pid := range pids.Containers {
		if id := idOfProcess(pid); !cut.has(id) {
			left = append(left, fmt.Sprintf("process %d in %s", pid, id))
		}
	}
	for _, pid := range pids.Shims {
		if id := idOfProcess(pid); !cut.has(id) && !cut.lost(id) {
			left = append(left, fmt.Sprintf("shim %d of %s", pid, id))
		}
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
	if mounts := mountsBelow(w.T, w.engine.dir()); len(mounts) > cut.sandboxes || slices.ContainsFunc(mounts, isNoNetwork) {
		left = append(left, mounts...)
	}
	for id := range w.idsSeen() {
		if !cut.has(id) {
			left = append(left, cgroupsOf(id)...)
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

func isNoNetwork(mount string) bool { return !strings.Contains(mount, "/netns/") }

// idOfProcess returns the ID of the container or sandbox of a process or of a shim.
func idOfProcess(pid int) string {
	for _, file := range []string{"cgroup", "cmdline"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if id := regexp.MustCompile("[0-9a-f]{64}").FindString(string(text)); id != "" {
			return id
		}
	}
	return ""
}

// cutShort lists the calls in containerd's log that started a container or a sandbox and have no
// end, because containerd or the caller was killed.
type cutShort struct {
	text      string
	sandboxes int // that were begun, and neither made nor failed
}

func (e *engine) cutShort() cutShort {
	text, err := os.ReadFile(e.log())
	if err != nil {
		return cutShort{}
	}
	c := cutShort{text: string(text)}
	for line := range strings.Lines(c.text) {
		switch {
		case !strings.Contains(line, "RunPodSandbox for "):
		case strings.Contains(line, "returns sandbox id"), strings.Contains(line, "failed"):
			c.sandboxes--
		default:
			c.sandboxes++
		}
	}
	return c
}

// has reports whether the container or sandbox with the ID was never reported as started. For such
// an ID containerd may leave the shim with its sandbox process, and the network namespace, although
// containerd reports the sandbox as removed. If runc is killed between making a cgroup and
// recording the container, runc leaves the cgroup. The ID is not on any CRI list any more, so no
// CRI client can know the ID.
func (c cutShort) has(id string) bool {
	return id != "" &&
		!strings.Contains(c.text, `returns sandbox id \"`+id) &&
		!strings.Contains(c.text, `StartContainer for \"`+id+`\" returns successfully`)
}

// lost reports whether containerd considered the shim of the ID dead, and reported the sandbox as
// removed. Some empty shims continue to run after their connection broke.
func (c cutShort) lost(id string) bool {
	return id != "" && strings.Contains(c.text, `msg="cleaning up dead shim" id=`+id) &&
		strings.Contains(c.text, `RemovePodSandbox \"`+id+`\" returns successfully`)
}

// endCgroups removes the excused cgroups, and counts the cgroups and the shims; containerdtest
// kills the processes left inside.
func (w *world) endCgroups() {
	w.ledger.mu.Lock()
	for range w.engine.c.PIDs().Shims {
		w.ledger.except("a shim that containerd left behind: of a sandbox that was being made, or taken for dead")
	}
	w.ledger.mu.Unlock()
	for id := range w.idsSeen() {
		dirs := cgroupsOf(id)
		if len(dirs) == 0 {
			continue
		}
		w.ledger.mu.Lock()
		w.ledger.except("a cgroup of what was cut short as it was being made, left by containerd or runc")
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
