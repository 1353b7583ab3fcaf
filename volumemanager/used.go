// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
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
	for c := range containers(&pod.Spec) {
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

// usedContainer has the relevant fields of a container of any kind.
type usedContainer struct {
	VolumeMounts  []v1.VolumeMount
	VolumeDevices []v1.VolumeDevice
	Security      *v1.SecurityContext
}

// containers yields the init, regular and ephemeral containers.
func containers(spec *v1.PodSpec) iter.Seq[usedContainer] {
	return func(yield func(usedContainer) bool) {
		for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(usedContainer{list[i].VolumeMounts, list[i].VolumeDevices, list[i].SecurityContext}) {
					return
				}
			}
		}
		for i := range spec.EphemeralContainers {
			c := &spec.EphemeralContainers[i].EphemeralContainerCommon
			if !yield(usedContainer{c.VolumeMounts, c.VolumeDevices, c.SecurityContext}) {
				return
			}
		}
	}
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
	for c := range containers(&pod.Spec) {
		var user *int64
		if pod.Spec.SecurityContext != nil {
			user = pod.Spec.SecurityContext.RunAsUser
		}
		if c.Security != nil && c.Security.RunAsUser != nil {
			user = c.Security.RunAsUser
		}
		if user == nil || all != nil && *all != *user {
			return nil
		}
		all = user
	}
	return all
}
