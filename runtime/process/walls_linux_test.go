// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process"
)

// restrict gives a pod the fields of Pod Security "restricted". Root cannot run as non-root.
func restrict(pod *v1.Pod) {
	no, yes := false, true
	pod.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}
	if os.Getuid() != 0 {
		pod.Spec.SecurityContext.RunAsNonRoot = &yes
	}
	pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		AllowPrivilegeEscalation: &no, Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
	}
}

// TestRestrictedPodsAreRestricted looks from inside, in the container and in a command of Exec.
func TestRestrictedPodsAreRestricted(t *testing.T) {
	const look = `grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t'
		unshare -U true 2>/dev/null || echo no namespaces`
	want := "CapPrm:0000000000000000\nCapEff:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\nno namespaces\n"
	e := newEnv(t)
	pod := e.pod(look + "; echo done; sleep 1000")
	restrict(pod)
	require.NoError(t, e.rt.CheckPod(pod))
	_, id := e.run(pod)
	e.awaitLog(pod, "done")
	assert.Equal(t, want+"done\n", e.log(pod, 0))
	out, _, code, err := e.rt.Exec(t.Context(), id, shell(look))
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Equal(t, want, string(out))
}

func TestReadOnlyRootFilesystem(t *testing.T) {
	const look = `
		try() { if sh -c "$2" 2>/dev/null; then echo "$1 yes"; else echo "$1 no"; fi; }
		try make "echo x > $KEELSON_ROOT/made"
		try folder "mkdir $KEELSON_ROOT/folder"
		try link "ln -s x $KEELSON_ROOT/link"
		try tmp "echo x > $TMP/outside"
		try truncate ": > $TMP/there"
		try truncate-call "truncate -s 0 $TMP/there"
		try remove "rm $TMP/there"
		try rename "mv $TMP/there $KEELSON_ROOT/data/there"
		try hardlink "ln $TMP/there $KEELSON_ROOT/data/there"
		try read "cat $TMP/there"
		try null "echo x > /dev/null"
		try volume "echo x > $KEELSON_ROOT/data/made"
		try message "echo because > $KEELSON_ROOT/dev/termination-log"
		try read-volume "cat $KEELSON_ROOT/fixed/file"
		try read-only-volume "echo x > $KEELSON_ROOT/fixed/made"
		try stdout "echo x > /dev/stdout"
		echo done`
	want := "make no\nfolder no\nlink no\ntmp no\ntruncate no\ntruncate-call no\nremove no\nrename no\nhardlink no\n" +
		"content\nread yes\nnull yes\nvolume yes\nmessage yes\nfixed\nread-volume yes\nread-only-volume no\nx\nstdout yes\ndone\n"
	yes := true
	for _, root := range []*bool{&yes, nil} {
		e := newEnv(t)
		tmp, data, fixed := t.TempDir(), t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(tmp, "there"), []byte("content\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(fixed, "file"), []byte("fixed\n"), 0o600))
		pod := e.pod(look + "; sleep 1000")
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "TMP", Value: tmp}}
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{ReadOnlyRootFilesystem: root}
		if err := e.rt.CheckPod(pod); err != nil {
			t.Skip(err) // an old kernel
		}
		spec := e.spec(pod, 0)
		spec.Mounts = []runtime.Mount{
			{Name: "data", HostPath: data, ContainerPath: "/data"},
			{Name: "fixed", HostPath: fixed, ContainerPath: "/fixed", ReadOnly: true},
		}
		id, err := e.rt.CreateContainer(t.Context(), e.sandbox(pod), spec)
		require.NoError(t, err)
		require.NoError(t, e.rt.StartContainer(t.Context(), id))
		e.awaitLog(pod, "done")
		if root == nil {
			assert.NotContains(t, e.log(pod, 0), "make no", "without the field")
			continue
		}
		assert.Equal(t, want, e.log(pod, 0))
		out, _, _, err := e.rt.Exec(t.Context(), id, shell(strings.Replace(look, "x > /dev/stdout", "x", 1)))
		require.NoError(t, err)
		assert.Equal(t, want, string(out), "in a command of Exec")
		require.NoError(t, e.rt.StopContainer(t.Context(), id, 0))
		assert.Equal(t, "because\n", e.status(pod).Message)
	}
}

func TestLocalhostProfiles(t *testing.T) {
	e := newEnv(t)
	profiles := t.TempDir()
	for name, text := range map[string]string{
		"nomkdir.json": `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}`,
		"nothing.json": `{"defaultAction": "SCMP_ACT_ERRNO"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(profiles, name), []byte(text), 0o600))
	}
	ask := func(pod *v1.Pod, file string) {
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &file}}
	}
	pod := e.pod("mkdir x; echo done")
	ask(pod, "nomkdir.json")
	require.ErrorContains(t, e.rt.CheckPod(pod), "seccompProfile (the agent has no folder of profiles)")

	e.rt = e.open(process.Options{SeccompRoot: profiles})
	e.run(pod)
	e.exited(pod)
	assert.Contains(t, e.log(pod, 0), "No space left on device\n")
	assert.Contains(t, e.log(pod, 0), "done\n")
	for file, want := range map[string]string{
		"none.json":    "securityContext.seccompProfile: openat none.json: no such file",
		"nothing.json": "securityContext.seccompProfile: profile nothing.json: the profile has to allow the system calls that start a process: clone",
	} {
		pod := e.pod("true")
		ask(pod, file)
		_, err := e.rt.CreateContainer(t.Context(), e.sandbox(pod), e.spec(pod, 0))
		require.ErrorContains(t, err, want)
	}
}

// TestCapabilitiesOfRoot needs an agent that has capabilities.
func TestCapabilitiesOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	e := newEnv(t)
	pod := e.pod(`grep -E '^Cap(Eff|Bnd)' /proc/self/status | tr -d '\t'; touch /proc/sys/kernel/hostname; chown 1 . 2>/dev/null || echo no chown`)
	pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}}}
	e.run(pod)
	e.exited(pod)
	assert.Contains(t, e.log(pod, 0), "CapEff:0000000000000400\nCapBnd:0000000000000400\n")
	assert.Contains(t, e.log(pod, 0), "no chown\n")
}
