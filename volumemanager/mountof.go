// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
)

// MountOf returns the host path of the volume of c.VolumeMounts[i], for the container runtime to
// mount. readOnly reports whether the volume or the volumeMount is read-only, relabel whether the
// files need the container's SELinux label. c is a container of pod with subPathExpr expanded into
// SubPath. MountOf does not write to pod and c.
//
// A SubPath requires Options.Subpaths with the ability SubpathPreparer. A volume without a host
// path (image, block device) or not mounted is an error: call WaitForAttachAndMount first. Errors
// name the volume.
func (m *Manager) MountOf(ctx context.Context, pod *v1.Pod, c *v1.Container, i int) (path string, readOnly, relabel bool, err error) {
	mount := &c.VolumeMounts[i]
	fail := func(err error) (string, bool, bool, error) {
		return "", false, false, fmt.Errorf("volume %q: %w", mount.Name, err)
	}
	mounted, place, ok := m.mountedVolume(pod, mount.Name)
	preparer, prepares := m.options.Subpaths.(SubpathPreparer)
	switch {
	case !ok:
		return fail(errors.New("is not mounted"))
	case mounted.Block || mounted.Path == "":
		return fail(errors.New("has no path on the host, so that a volumeMount cannot use it"))
	case mount.SubPath != "" && !prepares:
		return fail(fmt.Errorf("subPath %q: this node has no subpaths", mount.SubPath))
	case mount.SubPath != "":
		path, err = preparer.PrepareSubpath(ctx, place, mounted.Path, mount.SubPath, c.Name, i)
	default:
		path = mounted.Path
		_, err = os.Stat(path)
	}
	if err != nil {
		return fail(err)
	}
	return path, mount.ReadOnly || mounted.ReadOnly, mounted.SELinuxRelabel, nil
}

// mountedVolume returns a mounted volume of the pod by the pod's own name for the volume, and its
// place.
func (m *Manager) mountedVolume(pod *v1.Pod, name string) (mounted MountedVolume, place Place, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.each(pod.UID, func(_ *volume, r *row) {
		if r.state != StateMounted {
			return
		}
		for _, outer := range r.outer {
			if outer == name {
				mounted, place, ok = r.mountedVolume(), r.place, true
			}
		}
	})
	return mounted, place, ok
}

// mountedVolume returns the caller's view of a mounted row.
func (r *row) mountedVolume() MountedVolume {
	return MountedVolume{Mounted: r.mounted, Inner: r.place.Inner, Block: r.spec.Block()}
}
