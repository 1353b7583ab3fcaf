// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
)

func TestContainerOf(t *testing.T) {
	st := &api.ContainerStatus{
		Id: "c1", Metadata: &api.ContainerMetadata{Name: "meta", Attempt: 2}, State: api.ContainerState_CONTAINER_EXITED,
		CreatedAt: 10, StartedAt: 20, FinishedAt: 30, ExitCode: 137, Reason: "OOMKilled", LogPath: "/l/0.log",
		Image: &api.ImageSpec{Image: "docker.io/x:1", UserSpecifiedImage: "x:1"}, ImageRef: "sha256:ref", ImageId: "sha256:id",
		Labels:    map[string]string{containermeta.LabelContainerName: "main"},
		Resources: &api.ContainerResources{Linux: &api.LinuxContainerResources{CpuShares: 512, CpuQuota: 50000, CpuPeriod: 100000, MemoryLimitInBytes: 1 << 20}},
		User:      &api.ContainerUser{Linux: &api.LinuxContainerUser{Uid: 5, Gid: 6, SupplementalGroups: []int64{7}}},
	}
	got := containerOf("containerd", "s1", st, "bye")
	assert.Equal(t, "containerd://c1", got.ID.String())
	assert.Equal(t, runtime.StateExited, got.State)
	assert.Equal(t, [...]string{"main", "s1", "x:1", "sha256:id", "sha256:ref", "/l/0.log", "OOMKilled", "bye"},
		[...]string{got.Name, string(got.Sandbox), got.Image, got.ImageID, got.ImageRef, got.LogPath, got.Reason, got.Message})
	assert.EqualValues(t, 2, got.RestartCount)
	assert.EqualValues(t, 137, got.ExitCode)
	assert.Equal(t, []int64{10, 20, 30}, []int64{got.CreatedAt.UnixNano(), got.StartedAt.UnixNano(), got.FinishedAt.UnixNano()})
	assert.Equal(t, "500m", got.Resources.Requests.Cpu().String())
	assert.Equal(t, "500m", got.Resources.Limits.Cpu().String())
	assert.Equal(t, "1Mi", got.Resources.Limits.Memory().String())
	assert.Equal(t, &v1.LinuxContainerUser{UID: 5, GID: 6, SupplementalGroups: []int64{7}}, got.User.Linux)

	st.State, st.FinishedAt, st.Reason, st.ExitCode = api.ContainerState_CONTAINER_RUNNING, 0, "", 0
	got = containerOf("containerd", "s1", st, "")
	assert.Equal(t, runtime.StateRunning, got.State)
	assert.True(t, got.FinishedAt.IsZero())
	st.State = 77
	assert.Equal(t, runtime.StateUnknown, containerOf("containerd", "s1", st, "").State)

	// CRI-O's zero time.
	assert.True(t, timeOf(time.Time{}.UnixNano()).IsZero())
	st.State, st.StartedAt = api.ContainerState_CONTAINER_CREATED, time.Time{}.UnixNano()
	assert.True(t, containerOf("cri-o", "s1", st, "").StartedAt.IsZero())
	st.State = api.ContainerState_CONTAINER_EXITED
	assert.Equal(t, runtime.StateCreated, containerOf("cri-o", "s1", st, "").State, "it was stopped before its start")
}

func TestExitReason(t *testing.T) {
	assert.Equal(t, "Completed", exitReason("", 0))
	assert.Equal(t, "Error", exitReason("", 1))
	assert.Equal(t, "OOMKilled", exitReason("OOMKilled", 0))
}

func TestSandboxOf(t *testing.T) {
	st := &api.PodSandboxStatus{
		Id: "s1", Metadata: &api.PodSandboxMetadata{Attempt: 2}, CreatedAt: 5,
		Network: &api.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: []*api.PodIP{{Ip: "fd00:0::1"}}},
	}
	assert.Equal(t, runtime.SandboxStatus{
		ID: "s1", Attempt: 2, Ready: true, NetworkKnown: true, IPs: []string{"10.0.0.1", "fd00::1"}, CreatedAt: time.Unix(0, 5),
	}, sandboxOf(st))
	st.State = api.PodSandboxState_SANDBOX_NOTREADY
	assert.False(t, sandboxOf(st).Ready)
	st.Network.AdditionalIps[0].Ip = "garbage"
	assert.Empty(t, sandboxOf(st).IPs, "none, if any makes no sense")
	st.Network.Ip = ""
	assert.True(t, sandboxOf(st).NetworkKnown, "a network without an address is a sandbox that lost it")
	st.Linux = &api.LinuxPodSandboxStatus{Namespaces: &api.Namespace{Options: &api.NamespaceOption{Network: api.NamespaceMode_NODE}}}
	assert.True(t, sandboxOf(st).HostNetwork)
	assert.False(t, sandboxOf(st).NetworkKnown)
	st.Linux, st.Network = nil, nil
	assert.False(t, sandboxOf(st).NetworkKnown)
}

func TestMessage(t *testing.T) {
	root := t.TempDir()
	r := &client{files: files{root: root}}
	file, err := r.files.makeMessage("u1", "main")
	require.NoError(t, err)
	log := filepath.Join(root, "0.log")
	require.NoError(t, os.WriteFile(log, []byte("2026-01-02T03:04:05Z stdout F from the log\n"), 0o600))
	st := &api.ContainerStatus{
		State: api.ContainerState_CONTAINER_EXITED, StartedAt: 1, LogPath: log, ExitCode: 1,
		Mounts:      []*api.Mount{{ContainerPath: "/dev/termination-log/", HostPath: file}},
		Annotations: map[string]string{containermeta.AnnotationTerminationPolicy: "FallbackToLogsOnError"},
	}
	assert.Equal(t, "from the log\n", r.message(st))
	st.Message = "runtime"
	assert.Equal(t, "runtime: from the log\n", r.message(st))
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", 5000)+"last words"), 0o600))
	got := r.message(st)
	assert.Len(t, got, 4096)
	assert.True(t, strings.HasSuffix(got, "last words"))
	require.NoError(t, os.Truncate(file, 0))
	st.ExitCode = 0
	assert.Equal(t, "runtime", r.message(st), "no error")
	st.ExitCode, st.Reason = 1, "ContainerCannotRun"
	assert.Equal(t, "runtime", r.message(st))
	st.Reason, st.Annotations = "", nil
	assert.Equal(t, "runtime", r.message(st), "the policy is File")
	st.StartedAt = 0
	assert.Empty(t, r.message(st), "it never ran")
}

// Only messages made by an agent are read or removed.
func TestMessageStaysInItsPlace(t *testing.T) {
	root := t.TempDir()
	f := files{root: root}
	file, err := f.makeMessage("u1", "main")
	require.NoError(t, err)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	assert.Empty(t, f.readMessage(secret))
	require.NoError(t, f.removeMessage(secret))
	assert.FileExists(t, secret)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(secret, file))
	assert.NotContains(t, f.readMessage(file), "secret")
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	assert.Contains(t, f.readMessage(file), "no regular file", "and does not wait for a writer")
	for _, uid := range []string{"", ".", "..", "a/b", "../../x"} {
		_, err := f.makeMessage("u1", uid)
		assert.Error(t, err, uid)
		_, err = f.writeHosts(testPod(uid).UID, "")
		assert.Error(t, err, uid)
		assert.NoError(t, f.removePod(testPod(uid).UID), uid)
	}
	assert.DirExists(t, root)
}

func TestHostsKeepTheirFile(t *testing.T) {
	f := files{root: t.TempDir()}
	path, err := f.writeHosts("u1", "one\n")
	require.NoError(t, err)
	before, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), before.Mode().Perm())
	_, err = f.writeHosts("u1", "two\n")
	require.NoError(t, err)
	after, err := os.Stat(path)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "running containers have it mounted")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "two\n", string(text))
}

func TestLogEnd(t *testing.T) {
	entry := func(tag, text string) string {
		return "2026-01-02T03:04:05.000000006Z stdout " + tag + " " + text + "\n"
	}
	assert.Equal(t, "a\nbc\n", logEnd("cut off F x\n"+entry("F", "a")+entry("P", "b")+entry("F", "c")+"2026 stdout F unfinis"))
	var log strings.Builder
	for i := range 100 {
		log.WriteString(entry("F", fmt.Sprint(i)))
	}
	got := logEnd(log.String())
	assert.Equal(t, 80, strings.Count(got, "\n"))
	assert.True(t, strings.HasPrefix(got, "20\n"))
	assert.Len(t, logEnd(entry("F", strings.Repeat("x", 10000))), 2048)
	assert.Empty(t, logEnd("garbage\n\n"))
}

func FuzzLogEnd(f *testing.F) {
	f.Add("2026-01-02T03:04:05Z stdout F a\n2026-01-02T03:04:05Z stderr P b\n")
	f.Add("x")
	f.Fuzz(func(t *testing.T, log string) {
		got := logEnd(log)
		if len(got) > maxLogMessage || utf8.ValidString(log) && !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

func TestGoodID(t *testing.T) {
	for id, want := range map[string]bool{
		"0123456789abcdef": true, "k8s_a-b.c": true, "": false, ".": false, "..": false, "../x": false, "a/b": false, "a b": false, "a\x00": false,
	} {
		assert.Equal(t, want, goodID(id), "%q", id)
	}
}
