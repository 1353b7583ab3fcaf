// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// nestedMounts returns the mount points of other volumes directly beneath a volume, as folders
// relative to the volume. names are the pod's names of the volume. The container runtime could not
// create these folders in a read-only volume.
func nestedMounts(pod *v1.Pod, names []string) ([]string, error) {
	var all []string
	for mounts := range mountsOf(&pod.Spec) {
		for i := range mounts {
			m := &mounts[i]
			if !slices.Contains(names, m.Name) || m.SubPath != "" || m.SubPathExpr != "" {
				continue
			}
			nested, err := directlyBeneath(mounts, m.MountPath)
			if err != nil {
				return nil, err
			}
			all = append(all, nested...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// mountsOf yields the volumeMounts of each container of any kind.
func mountsOf(spec *v1.PodSpec) iter.Seq[[]v1.VolumeMount] {
	return func(yield func([]v1.VolumeMount) bool) {
		for i := range spec.InitContainers {
			if !yield(spec.InitContainers[i].VolumeMounts) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(spec.Containers[i].VolumeMounts) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield(spec.EphemeralContainers[i].VolumeMounts) {
				return
			}
		}
	}
}

// directlyBeneath returns the mount paths beneath top, relative to top, without paths beneath
// another result.
func directlyBeneath(mounts []v1.VolumeMount, top string) ([]string, error) {
	var paths []string
	for i := range mounts {
		p := mounts[i].MountPath
		if p == ".." || strings.HasPrefix(p, "../") {
			return nil, fmt.Errorf("mountPath %q climbs", p)
		}
		// Compare by elements: /dir/nested-volume is not beneath /dir/nested.
		if rel, ok := strings.CutPrefix(path.Clean("/"+p), withSlash(path.Clean("/"+top))); ok && rel != "" {
			paths = append(paths, rel)
		}
	}
	slices.Sort(paths)
	var out []string
	for _, p := range paths {
		if !slices.ContainsFunc(out, func(above string) bool { return p == above || strings.HasPrefix(p, above+"/") }) {
			out = append(out, p)
		}
	}
	return out, nil
}

func withSlash(p string) string { return strings.TrimSuffix(p, "/") + "/" }
