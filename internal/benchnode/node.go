// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// node is the agent under measurement, on a folder of manifests.
type node struct {
	endpoint  string // of the runtime
	dir, path string
	flags     []string // more flags for the agent
	user      uint32
	agent     *exec.Cmd
}

func (n *node) marks() string     { return filepath.Join(n.dir, "node") }
func (n *node) manifests() string { return filepath.Join(n.dir, "manifests") }

func (n *node) makeFolders() error {
	return errors.Join(os.MkdirAll(n.marks(), 0o755), os.MkdirAll(n.manifests(), 0o755))
}

func (n *node) start(context.Context) error {
	if err := n.makeFolders(); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.agent = exec.Command(n.path, append(n.flags, n.manifests(), "--root-dir", filepath.Join(n.dir, "root"),
		"--container-runtime-endpoint", n.endpoint, "--read-only-port", "0", "--hostname-override", "bench",
		"--image-gc-high-threshold=100")...) // the image cannot be pulled again, however full the disk is
	n.agent.Stdout, n.agent.Stderr = log, log
	n.agent.SysProcAttr = &syscall.SysProcAttr{Credential: credential(n.user)}
	return n.agent.Start()
}

// kill kills the agent with SIGKILL; its pods continue to run.
func (n *node) kill() {
	if n.agent != nil {
		_ = n.agent.Process.Kill()
		_ = n.agent.Wait()
		n.agent = nil
	}
}

// write adds a pod that ends on SIGTERM.
func (n *node) write(name string) error { return n.put(name, "", "exec sleep 100000") }

// writeDeaf adds a pod that ignores SIGTERM.
func (n *node) writeDeaf(name string) error {
	return n.put(name, "", "trap '' TERM; exec sleep 100000")
}

// writeVersion adds or updates a pod that is good when it has been ready for a second.
func (n *node) writeVersion(name string, version int) error {
	return n.put(name, `, annotations: {keelson.dev/update-gate-seconds: "1"}`, fmt.Sprintf("exec sleep %d", 100000+version))
}

// put writes a manifest atomically, as deploy tools do.
func (n *node) put(name, annotations, then string) error {
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s%[5]s}
spec:
  hostNetwork: true
  hostPID: true
  terminationGracePeriodSeconds: 1
  volumes: [{name: marks, hostPath: {path: %[2]s}}]
  containers:
  - name: main
    image: %[3]s
    command: ["/bin/sh", "-c", "echo $$$$ >> %[2]s/%[1]s; %[4]s"]
    volumeMounts: [{name: marks, mountPath: %[2]s}]
`, name, n.marks(), containerdtest.BusyboxImage, then, annotations)
	temp := filepath.Join(n.dir, name+".tmp")
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, n.file(name))
}

func (n *node) file(name string) string { return filepath.Join(n.manifests(), name+".yaml") }

// remove removes a pod and waits until its process is gone.
func (n *node) remove(ctx context.Context, name string, pid int) error {
	if err := os.Remove(n.file(name)); err != nil {
		return err
	}
	return waitGone(ctx, pid)
}

func waitGone(ctx context.Context, pid int) error {
	for deadline := time.Now().Add(time.Minute); ctx.Err() == nil; time.Sleep(500 * time.Microsecond) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d is still there after a minute", pid)
		}
	}
	return ctx.Err()
}

// cpu returns the processor time used by the agent.
func (n *node) cpu() (time.Duration, error) {
	own, _, err := cpuOf(n.agent.Process.Pid)
	return own, err
}

// memory returns the agent's resident set in bytes.
func (n *node) memory() (int, error) { return residentMemory(n.agent.Process.Pid) }

// residentMemory returns the resident set of a process in bytes.
func residentMemory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}
