// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

const (
	whyNoImageVolumes  = "this runtime mounts no images"
	whyNoImageSubPaths = "this runtime mounts whole images only"
	whyNoDevices       = "no part of this node allocates devices"
	whyLinux           = "the node's is linux"
)

// refusedFields lists the fields of the pod the backend cannot honour, in the pod's order.
func refusedFields(pod *v1.Pod, opts *Options, info Info) []string {
	classes := opts.RuntimeHandlers
	var fields []string
	refuse := func(asked bool, field, why string) {
		if asked {
			fields = append(fields, field+" ("+why+")")
		}
	}
	spec := &pod.Spec
	fields = append(fields, refusedSeccomp(pod)...)
	images := make(map[string]bool)
	for i := range spec.Volumes {
		images[spec.Volumes[i].Name] = spec.Volumes[i].Image != nil
	}
	for ref, c := range runtime.Containers(pod) {
		at := fmt.Sprintf("spec.%s[%d].", ref.Group, ref.Index)
		refuse(c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil, at+"securityContext.windowsOptions", whyLinux)
		refuse(len(c.VolumeDevices) > 0, at+"volumeDevices", "block devices cannot be attached")
		refuse(len(c.Resources.Claims) > 0, at+"resources.claims", whyNoDevices)
		for j := range c.VolumeMounts {
			mode := c.VolumeMounts[j].RecursiveReadOnly
			refuse(mode != nil && *mode == v1.RecursiveReadOnlyEnabled && !handlerOf(pod, classes, info).RecursiveReadOnlyMounts,
				fmt.Sprintf("%svolumeMounts[%d].recursiveReadOnly", at, j), "this runtime has no such mounts")
			refuse(len(c.VolumeMounts[j].BindMountOptions) > 0,
				fmt.Sprintf("%svolumeMounts[%d].bindMountOptions", at, j), "the CRI has no word for them")
			part := c.VolumeMounts[j].SubPath + c.VolumeMounts[j].SubPathExpr
			refuse(part != "" && images[c.VolumeMounts[j].Name] && info.ImageVolumes && !info.ImageVolumeSubPaths,
				fmt.Sprintf("%svolumeMounts[%d].subPath", at, j), whyNoImageSubPaths)
		}
	}
	for i := range spec.Volumes {
		refuse(spec.Volumes[i].Image != nil && !info.ImageVolumes, fmt.Sprintf("spec.volumes[%d].image", i), whyNoImageVolumes)
	}
	if field, why := refuseUsers(pod, opts, info); field != "" {
		refuse(true, field, why)
	}
	refuse(spec.OS != nil && spec.OS.Name != v1.Linux, "spec.os.name", whyLinux)
	if sc := spec.SecurityContext; sc != nil {
		refuse(sc.WindowsOptions != nil, "spec.securityContext.windowsOptions", whyLinux)
		strict := sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == v1.SupplementalGroupsPolicyStrict
		refuse(strict && !info.SupplementalGroupsPolicy, "spec.securityContext.supplementalGroupsPolicy", "this runtime always merges")
	}
	refuse(len(spec.ResourceClaims) > 0, "spec.resourceClaims", whyNoDevices)
	refuse(spec.Resources != nil && len(spec.Resources.Claims) > 0, "spec.resources.claims", whyNoDevices)
	if class := spec.RuntimeClassName; class != nil && *class != "" {
		handler, known := classes[*class]
		refuse(!known, "spec.runtimeClassName", "the node has no such class")
		_, has := info.Handlers[handler]
		refuse(known && info.Handlers != nil && !has, "spec.runtimeClassName", "the runtime has no handler of that class")
	}
	return fields
}
