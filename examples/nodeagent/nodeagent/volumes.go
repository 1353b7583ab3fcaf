// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/runtime"
)

// volumes provides the two kinds of volume that need nobody: emptyDir on the
// disk, laid out as the kubelet does below Root/pods/<uid>/volumes, and hostPath
// folders and files that exist. It is a stand-in of few lines for package volumemanager, which will
// take its place.
type volumes struct{ root string } // Root/pods

// check lists the volumes of a pod that cannot be provided.
func (v volumes) check(pod *v1.Pod) []string {
	var refused []string
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		path := field.NewPath("spec", "volumes").Index(i)
		switch {
		case vol.EmptyDir != nil && vol.EmptyDir.Medium != v1.StorageMediumDefault:
			refused = append(refused, path.Child("emptyDir", "medium").String()+" (only the disk)")
		case vol.EmptyDir != nil && vol.EmptyDir.SizeLimit != nil:
			refused = append(refused, path.Child("emptyDir", "sizeLimit").String()+" (not enforced)")
		case vol.EmptyDir != nil:
		case vol.HostPath != nil && (vol.HostPath.Type == nil || *vol.HostPath.Type == v1.HostPathUnset):
		case vol.HostPath != nil:
			refused = append(refused, path.Child("hostPath", "type").String()+" (only the empty type)")
		default:
			refused = append(refused, fmt.Sprintf("%s %q (only emptyDir and hostPath)", path, vol.Name))
		}
	}
	return refused
}

// setUp makes the pod's emptyDir folders. It can be called again.
func (v volumes) setUp(pod *v1.Pod) error {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].EmptyDir == nil {
			continue
		}
		dir, err := v.path(pod.UID, pod.Spec.Volumes[i].Name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("volume %s: %w", pod.Spec.Volumes[i].Name, err)
		}
	}
	return nil
}

// tearDown removes the pod's volumes, as soon as nothing of it runs any more.
func (v volumes) tearDown(uid types.UID) error { return v.remove(uid, "volumes") }

// purge removes everything in the pod's folder, when its records are gone too.
func (v volumes) purge(uid types.UID) error { return v.remove(uid, ".") }

// remove removes part of the pod's folder. Links are removed, never followed.
func (v volumes) remove(uid types.UID, part string) error {
	root, err := os.OpenRoot(v.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	defer root.Close()
	if !isFileName(string(uid)) {
		return fmt.Errorf("remove volumes: pod UID %q is no file name", uid)
	}
	if err := root.RemoveAll(filepath.Join(string(uid), part)); err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	return nil
}

// isFileName reports whether s names something in a folder, and nothing else.
func isFileName(s string) bool {
	return s != "." && filepath.IsLocal(s) && filepath.Base(s) == s
}

func (v volumes) path(uid types.UID, volume string) (string, error) {
	for _, element := range []string{string(uid), volume} {
		if !isFileName(element) {
			return "", fmt.Errorf("volume %q: %q is no file name", volume, element)
		}
	}
	return filepath.Join(v.root, string(uid), "volumes", "kubernetes.io~empty-dir", volume), nil
}

// mounts resolves a container's volumeMounts; it fits DefaultGenerator.
func (v volumes) mounts(_ context.Context, pod *v1.Pod, container *v1.Container) ([]runtime.Mount, error) {
	byName := make(map[string]*v1.Volume, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		byName[pod.Spec.Volumes[i].Name] = &pod.Spec.Volumes[i]
	}
	mounts := make([]runtime.Mount, 0, len(container.VolumeMounts))
	for i := range container.VolumeMounts {
		m := &container.VolumeMounts[i]
		vol := byName[m.Name]
		if vol == nil {
			return nil, fmt.Errorf("volumeMounts[%d]: there is no volume %q", i, m.Name)
		}
		host := ""
		if vol.HostPath != nil {
			host = vol.HostPath.Path
		} else {
			var err error
			if host, err = v.path(pod.UID, vol.Name); err != nil {
				return nil, err
			}
		}
		if _, err := os.Stat(host); err != nil {
			return nil, fmt.Errorf("volumeMounts[%d]: volume %q: %w", i, m.Name, err)
		}
		mounts = append(mounts, runtime.Mount{Name: m.Name, HostPath: host, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return mounts, nil
}
