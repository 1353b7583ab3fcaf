// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a systemd with the files of this machine, in namespaces of its own.
type machine struct {
	*testing.T
	pid string // of systemd
}

// bootMachine skips t without root, systemd and dpkg.
func bootMachine(t *testing.T) *machine {
	t.Helper()
	slowly(t)
	for _, program := range []string{"/lib/systemd/systemd", "dpkg", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			t.Skipf("needs root and %s", program)
		}
	}
	dir := t.TempDir()
	var out bytes.Buffer
	boot := exec.Command("sh", "testdata/systemd.sh", dir)
	boot.Stdout, boot.Stderr = &out, &out
	boot.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, boot.Start())
	m := &machine{T: t}
	t.Cleanup(func() {
		if pid, err := strconv.Atoi(m.pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // and with it all its processes
		}
		_ = boot.Process.Kill()
		_ = boot.Wait()
		path, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		if cgroup := strings.TrimSpace(string(path)); cgroup != "" {
			require.Eventually(t, func() bool { // the kernel still ends the processes
				_ = exec.Command("find", cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
				_, err := os.Stat(cgroup)
				return err != nil
			}, 10*time.Second, 50*time.Millisecond)
		}
	})
	require.Eventually(t, func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", boot.Process.Pid))
		m.pid = strings.TrimSpace(string(children))
		if name, _ := os.ReadFile("/proc/" + m.pid + "/comm"); strings.TrimSpace(string(name)) != "systemd" {
			return false
		}
		state, err := m.try("systemctl is-system-running")
		return err == nil || strings.TrimSpace(state) == "degraded"
	}, time.Minute, 100*time.Millisecond, "systemd: %s", &out)
	return m
}

// try runs a shell command in the machine.
func (m *machine) try(command string) (string, error) {
	out, err := exec.Command("nsenter", "--target", m.pid, "--all", "sh", "-c", command).CombinedOutput()
	return string(out), err
}

func (m *machine) run(command string) string {
	m.Helper()
	out, err := m.try(command)
	require.NoError(m, err, "%s: %s", command, out)
	return strings.TrimSpace(out)
}

func (m *machine) eventually(command string) {
	m.Helper()
	require.Eventually(m, func() bool { _, err := m.try(command); return err == nil }, 20*time.Second, 100*time.Millisecond, command)
}

// write writes a file in the machine.
func (m *machine) write(path string, content []byte) {
	m.Helper()
	path = filepath.Join("/proc", m.pid, "root", path)
	require.NoError(m, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m, os.WriteFile(path, content, 0o644))
}

// debs returns packages of this program, a package for each version.
func debs(t *testing.T, versions ...string) (packages [][]byte) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-buildvcs=false", "-o", filepath.Join(dir, "nodeagent"), ".").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, version := range versions {
		file := filepath.Join(dir, version+".deb")
		nfpm := exec.Command("go", "tool", "-modfile=tools/go.mod", "nfpm", "package",
			"--config", "examples/nodeagent/systemd/nfpm.yaml", "--packager", "deb", "--target", file)
		nfpm.Dir = "../.."
		nfpm.Env = append(os.Environ(), "PROGRAM=nodeagent", "FOLDER="+dir, "ARCH="+goArch(t), "VERSION="+version)
		out, err := nfpm.CombinedOutput()
		require.NoError(t, err, string(out))
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		packages = append(packages, content)
	}
	return packages
}

func goArch(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOARCH").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// keelsonFiles lists files by name.
const keelsonFiles = `find /etc /usr /var /run /tmp -xdev \( -name keelson -o -name 'keelson-node*' \) | sort`

// A pod keeps its processes while dpkg installs another version of the agent. Without the package there is no pod,
// no unit and no file of it.
func TestPackageUnderRunningPods(t *testing.T) {
	m := bootMachine(t)
	packages := debs(t, "0.0.1", "0.0.2")
	m.write("/var/tmp/1.deb", packages[0])
	m.write("/var/tmp/2.deb", packages[1])
	m.run("rm -rf /var/lib/keelson") // in the memory of the test alone
	before := m.run(keelsonFiles)

	const unit = "keelson-nodeagent-process.service"
	m.run("dpkg --install /var/tmp/1.deb")
	require.Empty(t, m.run("pgrep keelson-nodeag || true"), "the owner of the machine enables a unit")
	m.write("/etc/keelson/manifests/steady.yaml", []byte(`apiVersion: v1
kind: Pod
metadata: {name: steady}
spec:
  containers:
  - name: main
    image: host
    command: ["/bin/sh", "-c", "trap 'echo ended >> /var/tmp/ended; exit' TERM; echo $$$$ >> /var/tmp/pids; while true; do sleep 0.1; done"]
`))
	m.run("systemctl enable --now " + unit)
	m.eventually("test -s /var/tmp/pids")
	pid, agent := m.run("cat /var/tmp/pids"), m.run("systemctl show --property=MainPID --value "+unit)

	m.run("dpkg --install /var/tmp/2.deb")
	m.eventually("systemctl is-active " + unit)
	require.NotEqual(t, agent, m.run("systemctl show --property=MainPID --value "+unit))
	require.Equal(t, "/usr/bin/keelson-nodeagent", m.run("readlink /proc/$(systemctl show --property=MainPID --value "+unit+")/exe"))
	m.eventually("keelson-nodeagent ps | grep -E 'steady.* Running '")
	require.Equal(t, pid, m.run("cat /var/tmp/pids"), "started once")
	m.run("kill -0 " + pid)
	_, err := m.try("test -e /var/tmp/ended")
	require.Error(t, err)

	m.run("systemctl stop " + unit)
	m.run("kill -0 " + pid) // pods outlive the agent
	out := m.run("dpkg --purge keelson-nodeagent")
	require.Equal(t, "ended", m.run("cat /var/tmp/ended"), "%s", out)
	_, err = m.try("kill -0 " + pid)
	require.Error(t, err, out)
	require.Empty(t, m.run("pgrep keelson-nodeag || true"))
	require.Empty(t, m.run("systemctl list-units --all --no-legend 'keelson*'"))
	require.Equal(t, before, m.run(keelsonFiles), "%s", out)
}
