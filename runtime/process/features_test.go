// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process"
)

func TestMountsAppearInTheWorkingFolder(t *testing.T) {
	e := newEnv(t)
	host := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(host, "config"), []byte("setting\n"), 0o600))
	script := filepath.Join(host, "run.sh")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 in $(pwd -P)\"; cat \"$KEELSON_ROOT/etc/app/config\"; echo new > written\n"), 0o700))

	pod := e.pod("")
	spec := e.spec(pod, 0)
	spec.Mounts = []runtime.Mount{{Name: "v", HostPath: host, ContainerPath: "/etc/app", ReadOnly: true}}
	spec.Command, spec.WorkingDir = []string{"/etc/app/run.sh"}, "/etc/app"
	id, err := e.rt.CreateContainer(t.Context(), e.sandbox(pod), spec)
	require.NoError(t, err)
	require.NoError(t, e.rt.StartContainer(t.Context(), id))
	require.Zero(t, e.exited(pod).ExitCode)
	real, err := filepath.EvalSymlinks(host)
	require.NoError(t, err)
	assert.Equal(t, script+" in "+real+"\nsetting\n", e.log(pod, 0))
	assert.FileExists(t, filepath.Join(host, "written"))

	require.NoError(t, e.rt.RemoveContainer(t.Context(), id))
	assert.FileExists(t, filepath.Join(host, "config"), "removal does not follow the link")
}

func TestTerminationMessage(t *testing.T) {
	for _, tt := range []struct {
		name, script, path string
		policy             v1.TerminationMessagePolicy
		want               string
	}{
		{"default path", `echo because > dev/termination-log; exit 1`, "", "", "because\n"},
		{"own path", `echo because > "$KEELSON_ROOT/tmp/why"; exit 1`, "/tmp/why", v1.TerminationMessageReadFile, "because\n"},
		{"log on error", `echo last words; exit 1`, "", v1.TerminationMessageFallbackToLogsOnError, "last words\n"},
		{"no log on success", `echo fine`, "", v1.TerminationMessageFallbackToLogsOnError, ""},
		{"link out of the folder", `rm dev/termination-log; ln -s /etc/passwd dev/termination-log`, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t)
			pod := e.pod(tt.script)
			pod.Spec.Containers[0].TerminationMessagePath = tt.path
			pod.Spec.Containers[0].TerminationMessagePolicy = tt.policy
			e.run(pod)
			assert.Equal(t, tt.want, e.exited(pod).Message)
		})
	}
}

func TestNoNewPrivileges(t *testing.T) {
	e := newEnv(t)
	no := false
	for _, sc := range []*v1.SecurityContext{nil, {AllowPrivilegeEscalation: &no}} {
		want := "0"
		if sc != nil {
			want = "1"
		}
		pod := e.pod(`sed -n 's/NoNewPrivs:.//p' /proc/self/status; sleep 1000`)
		pod.Spec.Containers[0].SecurityContext = sc
		_, id := e.run(pod)
		e.awaitLog(pod, want)
		out, _, _, err := e.rt.Exec(t.Context(), id, shell(`sed -n 's/NoNewPrivs:.//p' /proc/self/status`))
		require.NoError(t, err)
		assert.Equal(t, want+"\n", string(out))
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	e := newEnv(t)
	pod := e.pod("sleep 1000")
	e.run(pod)
	seen := 0
	require.NoError(t, filepath.WalkDir(e.root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		assert.Equal(t, want, info.Mode().Perm(), path)
		seen++
		return nil
	}))
	assert.Greater(t, seen, 8)
}

func TestLenientLogsWhatItIgnores(t *testing.T) {
	e := newEnv(t)
	core, logs := observer.New(zap.InfoLevel)
	pod := e.pod("true")
	pod.Spec.Subdomain = "sub"
	pod.Spec.Containers[0].TTY = true
	_, err := e.rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: pod.UID, Pod: pod})
	require.ErrorIs(t, err, runtime.ErrUnsupported)
	_, err = e.rt.CreateContainer(t.Context(), "", runtime.ContainerSpec{Name: "c", Pod: pod})
	require.ErrorIs(t, err, runtime.ErrUnsupported)

	e.rt = e.open(process.Options{Lenient: true, Logger: zap.New(core)})
	e.run(pod)
	require.Zero(t, e.exited(pod).ExitCode)
	require.Equal(t, 1, logs.Len(), "one line for a sandbox")
	assert.Equal(t, []any{"spec.containers[0].tty (there is no standard input)", "spec.subdomain (processes use the host's network)"},
		logs.All()[0].ContextMap()["fields"])
}

func TestSandboxStatus(t *testing.T) {
	e := newEnv(t)
	for _, hostNetwork := range []bool{false, true} {
		pod := e.pod("true")
		pod.Spec.HostNetwork = hostNetwork
		id := e.sandbox(pod)
		st, err := e.rt.PodStatus(t.Context(), pod.UID)
		require.NoError(t, err)
		cur := st.Current()
		require.NotNil(t, cur)
		assert.Equal(t, runtime.SandboxStatus{ID: id, Ready: true, HostNetwork: hostNetwork, CreatedAt: cur.CreatedAt}, *cur)
		assert.Equal(t, "default/"+pod.Name, st.Namespace+"/"+st.Name)

		st, err = e.open(process.Options{HostIPs: []string{"192.0.2.1", "2001:db8::1"}}).PodStatus(t.Context(), pod.UID)
		require.NoError(t, err)
		assert.True(t, st.Current().NetworkKnown)
		assert.Equal(t, []string{"192.0.2.1", "2001:db8::1"}, st.Current().IPs)
	}
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		opts process.Options
		want string
	}{
		{process.Options{}, "Options.Root is required"},
		{process.Options{Root: "state"}, "Options.Root"},
		{process.Options{Root: "/state", Shim: "shim"}, "Options.Shim"},
		{process.Options{Root: "/state", HostIPs: []string{"10.0.0.1", "10.0.0.256"}}, "Options.HostIPs[1]"},
	} {
		_, err := process.New(tt.opts)
		require.ErrorContains(t, err, tt.want)
	}
	root := filepath.Join(t.TempDir(), "not", "made")
	rt, err := process.New(process.Options{Root: root})
	require.NoError(t, err)
	pods, err := rt.List(t.Context(), runtime.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods)
	assert.NoDirExists(t, root, "nothing is made before it is needed")
}

// TestAWrongShim: a program that is no shim is told, not waited for.
func TestAWrongShim(t *testing.T) {
	e := newEnv(t)
	loud := filepath.Join(t.TempDir(), "loud")
	require.NoError(t, os.WriteFile(loud, []byte("#!/bin/sh\necho cannot do that >&2; exit 1\n"), 0o700))
	for shim, want := range map[string]string{
		"/bin/true": "the shim ended at once", "/no/such/shim": "start the shim", loud: "cannot do that",
	} {
		e.rt = e.open(process.Options{Shim: shim})
		pod := e.pod("true")
		id := e.create(pod, e.sandbox(pod), 0)
		require.ErrorContains(t, e.rt.StartContainer(t.Context(), id), want)
		assert.Equal(t, runtime.StateCreated, e.status(pod).State)
	}
}

// TestNoDescriptorIsLeaked goes through a whole life many times.
func TestNoDescriptorIsLeaked(t *testing.T) {
	e := newEnv(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	life := func() {
		pod := e.pod("sleep 1000")
		sandbox, id := e.run(pod)
		_, _, _, err := e.rt.Exec(t.Context(), id, []string{"true"})
		require.NoError(t, err)
		e.status(pod)
		require.NoError(t, e.rt.StopContainer(t.Context(), id, time.Minute))
		bad := e.spec(pod, 1)
		bad.Command = []string{"/no/such/program"}
		failed, err := e.rt.CreateContainer(t.Context(), sandbox, bad)
		require.NoError(t, err)
		require.Error(t, e.rt.StartContainer(t.Context(), failed))
		require.NoError(t, e.rt.RemoveSandbox(t.Context(), sandbox))
		assert.NoDirExists(t, filepath.Join(e.root, string(pod.UID)))
	}
	zombies := func() map[proc.Ref]bool {
		all, err := proc.All()
		require.NoError(t, err)
		out := map[proc.Ref]bool{}
		for _, p := range all {
			if p.PPID == os.Getpid() && p.Zombie {
				out[p.Ref] = true
			}
		}
		return out
	}
	life()
	before, zombiesBefore := count(), zombies()
	for range 5 {
		life()
	}
	assert.LessOrEqual(t, count(), before)
	assert.Subset(t, zombiesBefore, zombies(), "every shim was reaped")
}

func TestNewestFirstThoughTheClockIsSetBack(t *testing.T) {
	// The records were written in a distant future, as a clock without a battery has it.
	for name, files := range map[string][]string{
		"set back after the container":                      {"spec.json", "../sandbox.json"},
		"set forward between the sandbox and the container": {"spec.json"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			pod := e.pod("true")
			sandbox := e.sandbox(pod)
			first := e.create(pod, sandbox, 0)
			for _, file := range files {
				path := filepath.Join(e.folder(first), file)
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				var rec map[string]any
				require.NoError(t, json.Unmarshal(raw, &rec))
				rec["createdAt"] = "2999-01-01T00:00:00Z"
				raw, err = json.Marshal(rec)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, raw, 0o600))
			}
			second := e.create(pod, sandbox, 1)
			newer := e.sandbox(pod)
			third := e.create(pod, newer, 2)
			st, err := e.rt.PodStatus(t.Context(), pod.UID)
			require.NoError(t, err)
			require.Equal(t, 2999, st.Containers[0].CreatedAt.Year())
			ids := make([]runtime.ContainerID, 0, 3)
			for _, c := range st.Containers {
				ids = append(ids, c.ID)
			}
			assert.Equal(t, []runtime.ContainerID{third, second, first}, ids)
			assert.Equal(t, []runtime.SandboxID{newer, sandbox}, []runtime.SandboxID{st.Sandboxes[0].ID, st.Sandboxes[1].ID})
		})
	}
}
