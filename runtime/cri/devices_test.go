// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

func TestCDIDevicesByVersion(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		want          bool
	}{
		{"containerd", "v1.7.24", false},
		{"containerd", "2.0.0", true},
		{"containerd", "v2.4.2", true},
		{"cri-o", "1.27.1", false},
		{"cri-o", "1.28.0", true},
		{"other", "9.9", false},
		{"containerd", "nonsense", false},
	} {
		assert.Equal(t, tt.want, cdiDevices(tt.name, tt.version), "%s %s", tt.name, tt.version)
	}
}

func TestDevices(t *testing.T) {
	char, block, file := v1.HostPathCharDev, v1.HostPathBlockDev, v1.HostPathFile
	volume := func(name string, kind *v1.HostPathType) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/dev/" + name, Type: kind}}}
	}
	pod := testPod("u1", "main")
	pod.Spec.Volumes = []v1.Volume{volume("char", &char), volume("block", &block), volume("file", &file), volume("untyped", nil), {Name: "other"}}
	spec := runtime.ContainerSpec{
		Pod: pod, Container: &pod.Spec.Containers[0],
		Devices: []runtime.Device{{HostPath: "/dev/a", ContainerPath: "/dev/b", Permissions: "rwm"}},
	}
	for _, v := range pod.Spec.Volumes {
		spec.Mounts = append(spec.Mounts, runtime.Mount{Name: v.Name, HostPath: "/dev/" + v.Name, ContainerPath: "/" + v.Name, ReadOnly: v.Name == "block"})
	}
	assert.Equal(t, []*api.Device{
		{HostPath: "/dev/a", ContainerPath: "/dev/b", Permissions: "rwm"},
		{HostPath: "/dev/char", ContainerPath: "/char", Permissions: "rw"},
		{HostPath: "/dev/block", ContainerPath: "/block", Permissions: "r"},
	}, devices(&spec))
	mounted, err := mounts(spec, found{})
	require.NoError(t, err)
	var paths []string
	for _, m := range mounted {
		paths = append(paths, m.GetContainerPath())
	}
	assert.Equal(t, []string{"/file", "/untyped", "/other"}, paths, "a device is not mounted, too")

	yes := true
	spec.Container = spec.Container.DeepCopy()
	spec.Container.SecurityContext = &v1.SecurityContext{Privileged: &yes}
	assert.Len(t, devices(&spec), 1, "a privileged container may open what is mounted")
}

func TestRefusedDevices(t *testing.T) {
	s := newServer(t)
	rt := s.dial(t)
	pod := testPod("u1", "main")
	good := runtime.Device{HostPath: "/dev/a", ContainerPath: "/dev/a", Permissions: "r"}
	for _, tt := range []struct {
		name   string
		edit   func(*runtime.ContainerSpec, *runtime.Device)
		want   string
		refuse bool
	}{
		{"relative host path", func(_ *runtime.ContainerSpec, d *runtime.Device) { d.HostPath = "a" }, `ContainerSpec.Devices[0].HostPath: "a" is not absolute`, false},
		{"relative path", func(_ *runtime.ContainerSpec, d *runtime.Device) { d.ContainerPath = "" }, `ContainerSpec.Devices[0].ContainerPath: "" is not absolute`, false},
		{"no permissions", func(_ *runtime.ContainerSpec, d *runtime.Device) { d.Permissions = "" }, `ContainerSpec.Devices[0].Permissions: "": want some`, false},
		{"other permissions", func(_ *runtime.ContainerSpec, d *runtime.Device) { d.Permissions = "rx" }, `ContainerSpec.Devices[0].Permissions: "rx": want some`, false},
		{"CDI", func(s *runtime.ContainerSpec, _ *runtime.Device) { s.CDIDevices = []string{"v.com/gpu=0"} }, "ContainerSpec.CDIDevices (this runtime knows no CDI devices)", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt.(*client).info.CDIDevices = false
			spec := runtime.ContainerSpec{Name: "main", Image: "a", Pod: pod, Container: &pod.Spec.Containers[0]}
			d := good
			tt.edit(&spec, &d)
			spec.Devices = []runtime.Device{d}
			_, err := rt.CreateContainer(t.Context(), "sandbox", spec)
			require.ErrorContains(t, err, tt.want)
			assert.Equal(t, tt.refuse, errors.Is(err, runtime.ErrUnsupported))
		})
	}
}
