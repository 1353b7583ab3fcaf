// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

var here = surroundings{id: "uid:0-0:c-0-0", work: "/state/work", hostname: "node", path: "/bin"}

func TestComposeEnvironment(t *testing.T) {
	rec, err := compose(runtime.ContainerSpec{
		Command: []string{"a"}, Args: []string{"b"},
		Env: []runtime.EnvVar{{Name: "B", Value: "2"}, {Name: "PATH", Value: "/mine"}, {Name: "A", Value: "x=y"}, {Name: "KEELSON_CONTAINER_ID", Value: "forged"}},
	}, here)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"HOSTNAME=node", "HOME=/state/work", "KEELSON_ROOT=/state/work",
		"B=2", "PATH=/mine", "A=x=y", "KEELSON_CONTAINER_ID=uid:0-0:c-0-0",
	}, rec.Env)
	assert.Equal(t, []string{"a", "b"}, rec.Args)

	rec, err = compose(runtime.ContainerSpec{Command: []string{"a"}}, surroundings{})
	require.NoError(t, err)
	assert.Contains(t, rec.Env, "PATH="+defaultPath)
}

func TestComposePaths(t *testing.T) {
	mounts := []runtime.Mount{
		{Name: "data", HostPath: "/host/data", ContainerPath: "/var/data"},
		{Name: "tools", HostPath: "/host/tools", ContainerPath: "opt/tools/"},
	}
	for _, tt := range []struct{ name, command, dir, wantPath, wantDir string }{
		{"plain", "sh", "", "", "/state/work"},
		{"host's own", "/bin/sh", "/usr", "", "/usr"},
		{"in mounts", "/opt/tools/run", "/var/data/sub", "/host/tools/run", "/host/data/sub"},
		{"a mount itself", "/bin/sh", "/var/data", "", "/host/data"},
		{"like a mount", "/opt/toolset/run", "/var/database", "", "/var/database"},
		{"dots", "/opt/tools/../tools/x", "/var/data/../../etc", "/host/tools/x", "/var/data/../../etc"},
		{"relative", "./run", "sub", "", "/state/work/sub"},
		{"relative, up", "../run", "../../etc", "", "/state/work/etc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec, err := compose(runtime.ContainerSpec{Command: []string{tt.command}, WorkingDir: tt.dir, Mounts: mounts}, here)
			require.NoError(t, err)
			assert.Equal(t, tt.wantPath, rec.Path)
			assert.Equal(t, tt.wantDir, rec.Dir)
			assert.Equal(t, tt.command, rec.Args[0], "the command sees the name it was called by")
		})
	}
}

func TestComposeDevices(t *testing.T) {
	device := func(host, container, permissions string) runtime.Device {
		return runtime.Device{HostPath: host, ContainerPath: container, Permissions: permissions}
	}
	for _, tt := range []struct {
		name    string
		devices []runtime.Device
		cdi     []string
		want    []string
	}{
		{name: "none"},
		{name: "at its own path", devices: []runtime.Device{device("/dev/x", "/dev/x", "rw"), device("/dev/y", "/dev/./y", "rwm")}},
		{name: "elsewhere", devices: []runtime.Device{device("/dev/x", "/dev/x", "rw"), device("/dev/x", "/dev/y", "rw")},
			want: []string{"ContainerSpec.Devices[1].ContainerPath (processes see the host's files)"}},
		{name: "only to read", devices: []runtime.Device{device("/dev/x", "/dev/x", "r")},
			want: []string{"ContainerSpec.Devices[0].Permissions (processes have the agent's rights)"}},
		{name: "only to write", devices: []runtime.Device{device("/dev/x", "/dev/x", "wm")},
			want: []string{"ContainerSpec.Devices[0].Permissions (processes have the agent's rights)"}},
		{name: "by a CDI name", cdi: []string{"vendor.com/gpu=0"}, want: []string{"ContainerSpec.CDIDevices (processes see the host's files)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compose(runtime.ContainerSpec{Command: []string{"a"}, Devices: tt.devices, CDIDevices: tt.cdi}, here)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			var refused *runtime.UnsupportedError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, tt.want, refused.Fields)
		})
	}
}

func TestComposeRefuses(t *testing.T) {
	mount := func(host, at string) runtime.Mount {
		return runtime.Mount{Name: "v", HostPath: host, ContainerPath: at}
	}
	for name, spec := range map[string]runtime.ContainerSpec{
		"no command":        {Args: []string{"x"}},
		"NUL in argument":   {Command: []string{"a\x00"}},
		"relative log":      {Command: []string{"a"}, LogPath: "log"},
		"mount of the root": {Command: []string{"a"}, Mounts: []runtime.Mount{mount("/h", "/x/..")}},
		"relative host":     {Command: []string{"a"}, Mounts: []runtime.Mount{mount("h", "/x")}},
		"mount in mount":    {Command: []string{"a"}, Mounts: []runtime.Mount{mount("/h", "/x/y"), mount("/h", "/x")}},
		"mount twice":       {Command: []string{"a"}, Mounts: []runtime.Mount{mount("/h", "/x"), mount("/h", "/x/")}},
	} {
		_, err := compose(spec, here)
		assert.Error(t, err, name)
	}
	_, err := compose(runtime.ContainerSpec{}, here)
	assert.ErrorIs(t, err, runtime.ErrUnsupported)
}

func TestComposeContainer(t *testing.T) {
	quit := v1.Signal("SIGQUIT")
	rec, err := compose(runtime.ContainerSpec{Command: []string{"a"}, Container: &v1.Container{
		TerminationMessagePath: "/run/../run/msg", TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
		Lifecycle: &v1.Lifecycle{StopSignal: &quit},
	}}, here)
	require.NoError(t, err)
	assert.Equal(t, "run/msg", rec.MessagePath)
	assert.True(t, rec.FallbackToLogs)
	assert.Equal(t, int(unix.SIGQUIT), rec.StopSignal)

	rec, err = compose(runtime.ContainerSpec{
		Command: []string{"a"}, Container: &v1.Container{},
		Mounts: []runtime.Mount{{HostPath: "/dev", ContainerPath: "/dev"}},
	}, here)
	require.NoError(t, err)
	assert.Empty(t, rec.MessagePath, "hidden by a mount")
	assert.Equal(t, int(unix.SIGTERM), rec.StopSignal)
}

func TestSignalNumbers(t *testing.T) {
	for name, want := range map[v1.Signal]unix.Signal{
		v1.SIGTERM: unix.SIGTERM, v1.SIGKILL: unix.SIGKILL, v1.SIGRTMIN: 34, v1.SIGRTMINPLUS3: 37, "SIGRTMAX": 64, "SIGRTMAX-14": 50,
	} {
		got, ok := signalNumber(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, got, name)
	}
	for _, name := range []v1.Signal{"", "TERM", "SIGNOPE", "SIGRTMIN-1", "SIGRTMIN+31", "SIGRTMAX+1", "SIGRTMINx", "15"} {
		_, ok := signalNumber(name)
		assert.False(t, ok, name)
	}
}
