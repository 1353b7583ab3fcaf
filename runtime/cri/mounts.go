// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// mounts returns the spec's mounts, the hosts file and the termination message. In a user namespace
// each mount shows the node's file owners.
func mounts(spec runtime.ContainerSpec, f found) ([]*api.Mount, error) {
	var out []*api.Mount
	for _, m := range spec.Mounts {
		if isDeviceMount(&spec, &m) {
			continue
		}
		one, err := mount(m, spec.Container, f)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	for _, extra := range []struct{ host, container string }{{f.hosts, hostsPath}, {f.message, messageTarget(spec.Container)}} {
		if extra.host != "" && !isMounted(spec.Mounts, extra.container) {
			out = append(out, &api.Mount{HostPath: extra.host, ContainerPath: extra.container})
		}
	}
	if users := usersOf(f.sandbox); users != nil && users.GetMode() == api.NamespaceMode_POD {
		for _, m := range out {
			m.UidMappings, m.GidMappings = users.GetUids(), users.GetGids()
		}
	}
	return out, nil
}

// mount merges a volume's mount with the container's volumeMount. The errors begin with the field's
// path below the container.
func mount(m runtime.Mount, c *v1.Container, f found) (*api.Mount, error) {
	out := &api.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly, SelinuxRelabel: m.SELinuxRelabel}
	i := slices.IndexFunc(c.VolumeMounts, func(v v1.VolumeMount) bool {
		return v.Name == m.Name && filepath.Clean(v.MountPath) == filepath.Clean(m.ContainerPath)
	})
	at := "mount " + m.Name
	var v v1.VolumeMount
	if i >= 0 {
		at, v = fmt.Sprintf("volumeMounts[%d]", i), c.VolumeMounts[i]
	}
	var err error
	if out.Propagation, err = propagation(v.MountPropagation, c); err != nil {
		return nil, fmt.Errorf("%s.mountPropagation: %w", at, err)
	}
	if out.RecursiveReadOnly, err = recursiveReadOnly(v, out, f.capabilities); err != nil {
		return nil, fmt.Errorf("%s.recursiveReadOnly: %w", at, err)
	}
	if m.Image == "" {
		return out, nil
	}
	if err := imageMount(out, m, f); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return out, nil
}

// propagation translates the mode: none, from the node to the container, or both ways. Only
// privileged containers may propagate both ways, since the node then sees their mounts.
func propagation(mode *v1.MountPropagationMode, c *v1.Container) (api.MountPropagation, error) {
	if mode == nil {
		return api.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *mode {
	case v1.MountPropagationNone:
		return api.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return api.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		if c.SecurityContext == nil || !isSet(c.SecurityContext.Privileged) {
			return 0, errors.New("Bidirectional is for privileged containers")
		}
		return api.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	default:
		return 0, fmt.Errorf("%q is not known", *mode)
	}
}

// recursiveReadOnly reports whether mounts below m are read-only, too. A recursive read-only mount
// must be read-only itself, and private (1.33). IfPossible depends on the runtime's abilities;
// Enabled without the ability was refused earlier.
func recursiveReadOnly(v v1.VolumeMount, m *api.Mount, handler Handler) (bool, error) {
	if v.RecursiveReadOnly == nil {
		return false, nil
	}
	switch *v.RecursiveReadOnly {
	case v1.RecursiveReadOnlyDisabled:
		return false, nil
	case v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible:
	default:
		return false, fmt.Errorf("%q is not known", *v.RecursiveReadOnly)
	}
	switch {
	case !m.GetReadonly():
		return false, errors.New("the mount is not read-only")
	case m.GetPropagation() != api.MountPropagation_PROPAGATION_PRIVATE:
		return false, errors.New("the mount has a mountPropagation")
	}
	return handler.RecursiveReadOnlyMounts, nil
}

// imageMount fills out with a mount of an image present on the node.
func imageMount(out *api.Mount, m runtime.Mount, f found) error {
	image := f.volumeImages[m.Image]
	switch {
	case m.HostPath != "":
		return errors.New("want a path of the node or an image, not both")
	case m.ImageSubPath != "" && (!filepath.IsLocal(m.ImageSubPath) || strings.ContainsRune(m.ImageSubPath, 0)):
		return errors.New("the path in the image is not relative, or leaves it")
	case out.Propagation != api.MountPropagation_PROPAGATION_PRIVATE:
		return errors.New("an image's mount is private")
	case image == nil:
		return fmt.Errorf("image %q is not on the node", m.Image)
	}
	out.Image = &api.ImageSpec{Image: image.GetId(), UserSpecifiedImage: m.Image}
	out.ImageSubPath, out.Readonly, out.SelinuxRelabel = m.ImageSubPath, true, false
	return nil
}

func isMounted(mounts []runtime.Mount, containerPath string) bool {
	return slices.ContainsFunc(mounts, func(m runtime.Mount) bool {
		return filepath.Clean(m.ContainerPath) == filepath.Clean(containerPath)
	})
}
