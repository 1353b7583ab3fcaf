// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// nestedMounts returns the mount points of other volumes directly beneath a volume, as folders
// relative to the volume. names are the pod's names of the volume. The container runtime could not
// create these folders in a read-only volume.
func nestedMounts(pod *v1.Pod, names []string) ([]string, error) {
	var all []string
	for c := range podfacts.AllContainers(&pod.Spec) {
		for i := range c.VolumeMounts {
			m := &c.VolumeMounts[i]
			if !slices.Contains(names, m.Name) || m.SubPath != "" || m.SubPathExpr != "" {
				continue
			}
			nested, err := directlyBeneath(c.VolumeMounts, m.MountPath)
			if err != nil {
				return nil, err
			}
			all = append(all, nested...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
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
