// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// supervisor is a program that runs the programs of a crowd.
type supervisor interface {
	// prepare writes the configuration of all programs.
	prepare(c *crowd) error
	// start starts the supervisor, which starts all programs.
	start(ctx context.Context) error
	// stop tells the supervisor to stop all programs.
	stop() error
	// pid is the supervisor's PID.
	pid() int
	// holders returns the PIDs of the processes between the supervisor and the programs.
	holders() ([]int, error)
	// remains reports whether a holder, or a record of a program, is left.
	remains() (bool, error)
	// kill ends the supervisor.
	kill()
}

// runit is runsvdir of runit, with a service for each program. A service has no log.
type runit struct {
	dir     string
	user    uint32
	wrapped bool // the programs run in bubblewrap, with the namespaces of a confined container
	svd     *exec.Cmd
}

func (r *runit) prepare(c *crowd) error {
	script := "#!/bin/sh\n" + c.script() + "\n"
	if r.wrapped {
		script = fmt.Sprintf("#!/bin/sh\nexec %s /bin/sh -c %q\n", strings.Join(bubblewrap(c.dir), " "), c.script())
	}
	for i := range c.size {
		service := filepath.Join(r.dir, strconv.Itoa(i))
		if err := os.MkdirAll(service, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(service, "run"), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return giveTo(r.dir, r.user)
}

// bubblewrap is the command line that gives a program its own user, processes, IPC, host name and root
// file system, in which it can write to a folder, no capability, and no new terminal.
func bubblewrap(dir string) []string {
	args := []string{"bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev", "--bind", dir, dir}
	for _, path := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/sys"} {
		args = append(args, "--ro-bind-try", path, path)
	}
	return args
}

func (r *runit) start(context.Context) error {
	r.svd = exec.Command("runsvdir", r.dir)
	r.svd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(r.user)}
	return r.svd.Start()
}

// stop makes runsvdir send SIGTERM to each runsv, which ends its service and then itself.
func (r *runit) stop() error { return r.svd.Process.Signal(syscall.SIGHUP) }

func (r *runit) pid() int { return r.svd.Process.Pid }

func (r *runit) holders() ([]int, error) {
	return processes(func(args []string) bool { return len(args) == 2 && args[0] == "runsv" || args[0] == "bwrap" })
}

func (r *runit) remains() (bool, error) {
	left, err := r.holders()
	return len(left) > 0, err
}

func (r *runit) kill() {
	if r.svd == nil {
		return
	}
	_ = r.svd.Process.Signal(syscall.SIGHUP)
	_ = r.svd.Wait()
}

// agent is the node agent with the process backend, and a pod for each program.
type agent struct{ node }

func (a *agent) prepare(c *crowd) error {
	if err := a.makeFolders(); err != nil {
		return err
	}
	for i := range c.size {
		name := fmt.Sprint("crowd-", i)
		manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  volumes: [{name: crowd, hostPath: {path: %[2]s}}]
  containers:
  - name: main
    image: none
    command: ["/bin/sh", "-c", "%[3]s"]
    volumeMounts: [{name: crowd, mountPath: %[2]s}]
`, name, c.dir, c.script())
		if err := os.WriteFile(a.file(name), []byte(manifest), 0o644); err != nil {
			return err
		}
	}
	return giveTo(a.dir, a.user)
}

// stop removes all manifests.
func (a *agent) stop() error {
	files, err := os.ReadDir(a.manifests())
	for _, f := range files {
		if err == nil {
			err = os.Remove(filepath.Join(a.manifests(), f.Name()))
		}
	}
	return err
}

func (a *agent) pid() int { return a.node.agent.Process.Pid }

// records is the state folder of the process backend.
func (a *agent) records() string { return filepath.Join(a.dir, "root", "process") }

// holders returns the shims. A shim has the folder of its container as the second argument.
func (a *agent) holders() ([]int, error) {
	return processes(func(args []string) bool { return len(args) == 2 && strings.HasPrefix(args[1], a.records()+"/") })
}

func (a *agent) remains() (bool, error) {
	records, err := os.ReadDir(a.records())
	if err != nil || len(records) > 0 {
		return true, err
	}
	left, err := a.holders()
	return len(left) > 0, err
}

// kill stops the pods that are left, and the agent.
func (a *agent) kill() {
	if a.node.agent == nil {
		return
	}
	_ = a.node.agent.Process.Signal(syscall.SIGTERM)
	_ = a.node.agent.Wait()
	a.node.agent = nil
}

// processes returns the PIDs of the processes with matching arguments.
func processes(match func(args []string) bool) (pids []int, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		raw, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || len(raw) == 0 || !match(strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(folder))
		pids = append(pids, pid)
	}
	return pids, err
}

// awaitNothing waits until nothing of a crowd remains.
func awaitNothing(s supervisor) error {
	for deadline := time.Now().Add(crowdPatience); ; time.Sleep(5 * time.Millisecond) {
		left, err := s.remains()
		if err != nil || !left {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("something is left after %v", crowdPatience)
		}
	}
}

// credential returns the user and group of a number, nil for the present user.
func credential(user uint32) *syscall.Credential {
	if int(user) == os.Geteuid() {
		return nil
	}
	return &syscall.Credential{Uid: user, Gid: user}
}

// giveTo makes a user the owner of a folder and of everything below.
func giveTo(dir string, user uint32) error {
	if credential(user) == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(user), int(user))
	})
}
