// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// newIsolated returns a backend whose containers have namespaces.
func newIsolated(t testing.TB) *env {
	e := newEnv(t)
	rt, err := process.New(process.Options{Root: e.root, Confine: true})
	if err != nil {
		t.Skip(err)
	}
	if !process.HasNamespaces(rt) {
		t.Skip("no namespaces here")
	}
	e.rt = rt
	return e
}

// runWith runs a pod with mounts.
func (e *env) runWith(pod *v1.Pod, mounts ...runtime.Mount) runtime.ContainerID {
	e.Helper()
	require.NoError(e, e.rt.CheckPod(pod))
	spec := e.spec(pod, 0)
	spec.Mounts = mounts
	id, err := e.rt.CreateContainer(e.Context(), e.sandbox(pod), spec)
	require.NoError(e, err)
	require.NoError(e, e.rt.StartContainer(e.Context(), id))
	return id
}

// TestNamespacesFromInside looks from inside a container and from a command of Exec.
func TestNamespacesFromInside(t *testing.T) {
	const look = `echo pids $(ls /proc | grep -c '^[0-9]*$')
		echo first $(head -c 7 /proc/1/cmdline)
		echo dir $PWD $HOME [$KEELSON_ROOT]
		echo root $(ls -A /)
		echo dev $(ls /dev)
		echo data $(cat /data/file) $(cat /data/inner/file) $(cat /etc/app/config) $(cat /etc/single)
		echo y > /data/made && echo data written
		(echo y > /data/inner/made) 2>/dev/null || echo inner kept
		(echo y > /etc/made) 2>/dev/null || echo etc kept
		(echo y > /proc/sys/kernel/domainname) 2>/dev/null || echo sys kept
		echo y > /tmp/made && echo tmp written
		echo x > /dev/null && head -c 2 /dev/zero | wc -c
		echo y > /dev/shm/made && echo shm written
		[ -d /etc/ssl ] && [ -x /bin/sh ] && echo system
		hostname
		`
	e := newIsolated(t)
	data, inner, config := t.TempDir(), t.TempDir(), t.TempDir()
	for dir, text := range map[string]string{data: "outer", inner: "inner", config: "config"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte(text), 0o644))
	}
	pod := e.pod(look + "echo because > /dev/termination-log; echo done; sleep 1000")
	sandbox, err := e.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Name: pod.Name, Pod: pod, Hostname: "inside"})
	require.NoError(t, err)
	spec := e.spec(pod, 0)
	spec.Mounts = []runtime.Mount{
		{Name: "inner", HostPath: inner, ContainerPath: "/data/inner", ReadOnly: true},
		{Name: "data", HostPath: data, ContainerPath: "/data"},
		{Name: "config", HostPath: config, ContainerPath: "/etc/app", ReadOnly: true},
		{Name: "single", HostPath: filepath.Join(config, "file"), ContainerPath: "/etc/single", ReadOnly: true},
	}
	id, err := e.rt.CreateContainer(t.Context(), sandbox, spec)
	require.NoError(t, err)
	require.NoError(t, e.rt.StartContainer(t.Context(), id))
	e.awaitLog(pod, "done")

	out := e.log(pod, 0)
	t.Log(out)
	for _, line := range []string{
		"first /bin/sh", "dir / / []", "data outer inner config config", "data written", "inner kept",
		"etc kept", "sys kept", "tmp written", "2", "shm written", "system", "inside",
		"dev fd full mqueue null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero",
	} {
		assert.Contains(t, "\n"+out, "\n"+line+"\n")
	}
	assert.FileExists(t, filepath.Join(data, "made"))
	beside, _, code, err := e.rt.Exec(t.Context(), id, shell(look+"kill -0 1 && echo first there"))
	require.NoError(t, err)
	assert.Zero(t, code)
	for _, line := range []string{"first /bin/sh", "data outer inner config config", "inner kept", "etc kept", "system", "inside", "first there"} {
		assert.Contains(t, "\n"+string(beside), "\n"+line+"\n")
	}
	_, _, _, err = e.rt.Exec(t.Context(), id, []string{"no-such-program"})
	assert.ErrorContains(t, err, `command "no-such-program": no such file or directory`)

	main := e.process(id).Main
	require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
	assert.False(t, main.Alive())
	assert.Empty(t, e.processes(id))
	assert.Equal(t, "because\n", e.status(pod).Message)
}

// TestEndOfNamespaces: the end of the first process ends all processes, and so does the end of the
// shim.
func TestEndOfNamespaces(t *testing.T) {
	e := newIsolated(t)
	for _, kill := range []string{"main", "shim"} {
		pod := e.pod(`env -i setsid sleep 1000 & echo ready; sleep 1000`)
		_, id := e.run(pod)
		e.awaitLog(pod, "ready")
		_, _, _, err := e.rt.Exec(t.Context(), id, shell("setsid sleep 1000 > /dev/null 2>&1 &"))
		require.NoError(t, err)
		p := e.process(id)
		space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.Main.PID))
		require.NoError(t, err)
		require.GreaterOrEqual(t, members(space), 4)
		if kill == "main" {
			require.NoError(t, p.Main.Signal(9))
		} else {
			require.NoError(t, p.Shim.Signal(9))
		}
		e.until("no process is left in the namespace", func() bool { return members(space) == 0 })
		assert.Equal(t, int32(137), e.exited(pod).ExitCode)
	}
}

// members returns the number of processes in a PID namespace.
func members(space string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, path := range all {
		if to, err := os.Readlink(path); err == nil && to == space {
			n++
		}
	}
	return n
}

// TestUsersInNamespaces: a container has the user and group that it asks for.
func TestUsersInNamespaces(t *testing.T) {
	e := newIsolated(t)
	uid, gid, yes, no := int64(1234), int64(5678), true, false
	data := t.TempDir()
	require.NoError(t, os.Chmod(data, 0o777))
	pod := e.pod(`id -u; id -g; id -G; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status | tr -d '\t'; echo x > /data/made; echo m > /dev/termination-log; echo done; sleep 1000`)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &uid, RunAsNonRoot: &yes}
	pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsGroup: &gid, AllowPrivilegeEscalation: &no,
		Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}
	id := e.runWith(pod, runtime.Mount{Name: "data", HostPath: data, ContainerPath: "/data"})
	e.awaitLog(pod, "done")
	const none = "0000000000000000"
	want := "1234\n5678\n5678\nCapInh:" + none + "\nCapPrm:" + none + "\nCapEff:" + none + "\nCapBnd:" + none + "\nCapAmb:" + none + "\nNoNewPrivs:1\nSeccomp:2\ndone\n"
	got := e.log(pod, 0)
	if os.Getuid() != 0 { // other groups of the agent are those of nobody
		got = strings.Replace(got, "5678 65534\n", "5678\n", 1)
	}
	assert.Equal(t, want, got)
	out, _, _, err := e.rt.Exec(t.Context(), id, shell("id -u; id -g"))
	require.NoError(t, err)
	assert.Equal(t, "1234\n5678\n", string(out))
	info, err := os.Stat(filepath.Join(data, "made"))
	require.NoError(t, err)
	assert.Positive(t, info.Size())
	require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Nanosecond))
	assert.Equal(t, "m\n", e.status(pod).Message)
}

// TestMountPropagation: with HostToContainer, later mounts of the host appear in the container.
func TestMountPropagation(t *testing.T) {
	e := newIsolated(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skip(err) // only root mounts
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	require.NoError(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "later"), 0o755))
	follow, both := v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional
	pod := e.pod("echo ready; sleep 1000")
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "d", MountPath: "/follow", MountPropagation: &follow}, {Name: "d", MountPath: "/fixed"}}
	require.NoError(t, e.rt.CheckPod(pod))
	id := e.runWith(pod, runtime.Mount{Name: "d", HostPath: dir, ContainerPath: "/follow"}, runtime.Mount{Name: "d", HostPath: dir, ContainerPath: "/fixed"})
	e.awaitLog(pod, "ready")
	require.NoError(t, unix.Mount("none", filepath.Join(dir, "later"), "tmpfs", 0, ""))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "later", "file"), nil, 0o644))
	out, _, _, err := e.rt.Exec(t.Context(), id, shell("ls /follow/later /fixed/later"))
	require.NoError(t, err)
	assert.Equal(t, "/fixed/later:\n\n/follow/later:\nfile\n", string(out))
	out, _, _, err = e.rt.Exec(t.Context(), id, shell("mount -t tmpfs none /follow/later || echo refused"))
	require.NoError(t, err)
	assert.Equal(t, "refused\n", string(out))

	pod.Spec.Containers[0].VolumeMounts[0].MountPropagation = &both
	require.ErrorContains(t, e.rt.CheckPod(pod), "spec.containers[0].volumeMounts[0].mountPropagation")
}

// TestFieldsOfNamespaces: fields that need namespaces are honoured, or refused by name.
func TestFieldsOfNamespaces(t *testing.T) {
	e := newIsolated(t)
	zero, yes, no := int64(0), true, false
	t.Run("hostPID", func(t *testing.T) {
		pod := e.pod(fmt.Sprintf("[ -d /proc/%d ] && echo sees; echo done", os.Getpid()))
		pod.Spec.HostPID = true
		e.run(pod)
		e.exited(pod)
		assert.Equal(t, "sees\ndone\n", e.log(pod, 0))
	})
	t.Run("hostIPC", func(t *testing.T) {
		pod := e.pod("readlink /proc/self/ns/ipc")
		pod.Spec.HostIPC = true
		e.run(pod)
		e.exited(pod)
		own, err := os.Readlink("/proc/self/ns/ipc")
		require.NoError(t, err)
		assert.Equal(t, own+"\n", e.log(pod, 0))
	})
	for field, change := range map[string]func(*v1.Pod){
		"spec.shareProcessNamespace": func(p *v1.Pod) { p.Spec.ShareProcessNamespace = &yes },
		"spec.containers[0].securityContext.runAsNonRoot": func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &zero}
		},
	} {
		pod := e.pod("true")
		change(pod)
		require.ErrorContains(t, e.rt.CheckPod(pod), field)
	}
	pod := e.pod("true")
	pod.Spec.HostUsers = &no
	if err := e.rt.CheckPod(pod); os.Getuid() == 0 {
		require.ErrorContains(t, err, "spec.hostUsers")
	} else {
		require.NoError(t, err)
	}

	// Without namespaces, the same kernel refuses what needs them.
	process.WithoutNamespaces(e.rt)
	user := int64(4711)
	pod = e.pod("true")
	pod.Spec.HostUsers = &no
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user}
	err := e.rt.CheckPod(pod)
	for _, field := range []string{"spec.hostUsers", "spec.securityContext.runAsUser", "spec.securityContext.runAsGroup"} {
		require.ErrorContains(t, err, field)
	}
}
