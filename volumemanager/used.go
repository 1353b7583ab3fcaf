// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// use tells how the containers of a pod use a volume: as files, or as a block device.
type use struct {
	name         string
	files, block bool
}

// usedVolumes returns the pod's volumes that a container of any kind uses, in the order of the
// pod's spec. Unused volumes are not set up. missing are the used names without a volume in the
// pod, sorted.
func usedVolumes(pod *v1.Pod) (used []v1.Volume, uses map[string]use, missing []string) {
	uses = map[string]use{}
	for c := range podfacts.AllContainers(&pod.Spec) {
		for _, m := range c.VolumeMounts {
			u := uses[m.Name]
			u.name, u.files = m.Name, true
			uses[m.Name] = u
		}
		for _, d := range c.VolumeDevices {
			u := uses[d.Name]
			u.name, u.block = d.Name, true
			uses[d.Name] = u
		}
	}
	seen := map[string]bool{}
	for _, vol := range pod.Spec.Volumes {
		if _, ok := uses[vol.Name]; ok && !seen[vol.Name] {
			used = append(used, vol)
			seen[vol.Name] = true
		}
	}
	for name := range uses {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return used, uses, missing
}

// checkMode returns an error if the containers' use does not fit the volume's mode.
func checkMode(spec Spec, u use) error {
	switch {
	case u.files && spec.Block():
		return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", u.name)
	case u.block && !spec.Block():
		return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", u.name)
	}
	return nil
}

// fsUser returns the user that every container of the pod runs as, nil if they differ or none is
// set.
func fsUser(pod *v1.Pod) *int64 {
	var all *int64
	for c := range podfacts.AllContainers(&pod.Spec) {
		var user *int64
		if pod.Spec.SecurityContext != nil {
			user = pod.Spec.SecurityContext.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			user = c.SecurityContext.RunAsUser
		}
		if user == nil || all != nil && *all != *user {
			return nil
		}
		all = user
	}
	return all
}
