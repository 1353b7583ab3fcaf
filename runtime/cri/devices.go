// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

const whyNoCDI = "this runtime knows no CDI devices"

// devices returns the spec's devices and, as devices, the mounts of hostPath volumes of type
// CharDevice and BlockDevice. A mounted device node cannot be opened, since the container's cgroup
// allows only listed devices. A privileged container may open all devices and keeps the mounts.
func devices(spec *runtime.ContainerSpec) []*api.Device {
	var out []*api.Device
	for _, d := range spec.Devices {
		out = append(out, &api.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	for _, m := range spec.Mounts {
		if !isDeviceMount(spec, &m) {
			continue
		}
		permissions := "rw"
		if m.ReadOnly {
			permissions = "r"
		}
		out = append(out, &api.Device{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Permissions: permissions})
	}
	return out
}

// isDeviceMount reports whether devices takes the place of m.
func isDeviceMount(spec *runtime.ContainerSpec, m *runtime.Mount) bool {
	if c := spec.Container; c != nil && c.SecurityContext != nil && isSet(c.SecurityContext.Privileged) {
		return false
	}
	i := slices.IndexFunc(spec.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
	if i < 0 || spec.Pod.Spec.Volumes[i].HostPath == nil || spec.Pod.Spec.Volumes[i].HostPath.Type == nil {
		return false
	}
	kind := *spec.Pod.Spec.Volumes[i].HostPath.Type
	return kind == v1.HostPathCharDev || kind == v1.HostPathBlockDev
}

// cdiDevicesOf are the names for the runtime.
func cdiDevicesOf(names []string) []*api.CDIDevice {
	var out []*api.CDIDevice
	for _, name := range names {
		out = append(out, &api.CDIDevice{Name: name})
	}
	return out
}

// checkDevices refuses malformed devices and devices not supported by this runtime.
func (r *client) checkDevices(spec *runtime.ContainerSpec) error {
	if len(spec.CDIDevices) > 0 && !r.info.CDIDevices {
		return &runtime.UnsupportedError{Runtime: r.Name(), Fields: []string{"ContainerSpec.CDIDevices (" + whyNoCDI + ")"}}
	}
	for i, d := range spec.Devices {
		at := fmt.Sprintf("ContainerSpec.Devices[%d]", i)
		switch {
		case !filepath.IsAbs(d.HostPath):
			return fmt.Errorf("%s.HostPath: %q is not absolute", at, d.HostPath)
		case !filepath.IsAbs(d.ContainerPath):
			return fmt.Errorf("%s.ContainerPath: %q is not absolute", at, d.ContainerPath)
		case d.Permissions == "" || strings.Trim(d.Permissions, "rwm") != "":
			return fmt.Errorf(`%s.Permissions: %q: want some of "r", "w" and "m"`, at, d.Permissions)
		}
	}
	return nil
}
