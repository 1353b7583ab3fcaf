// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeKinds counts the volume types that are set.
func volumeKinds(v *v1.VolumeSource) int {
	kinds := 0
	for _, value := range reflect.ValueOf(*v).Fields() {
		if !value.IsZero() {
			kinds++
		}
	}
	return kinds
}

func validateMounts(r *report, c *v1.Container, volumes map[string]*v1.Volume, p *field.Path) {
	paths := map[string]bool{}
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], p.Child("volumeMounts").Index(i)
		if m.Name == "" {
			r.required(at.Child("name"), "the name of one of spec.volumes")
		} else if volumes[m.Name] == nil {
			r.noVolume(at.Child("name"), m.Name, volumes)
		}
		if m.MountPath == "" {
			r.required(at.Child("mountPath"), "the path in the container, such as \"/data\"")
		} else {
			r.noBackstep(at.Child("mountPath"), m.MountPath)
			r.unique(at.Child("mountPath"), paths, m.MountPath)
		}
		validateMount(r, c, m, at)
	}
	for i, d := range c.VolumeDevices {
		at := p.Child("volumeDevices").Index(i)
		if volumes[d.Name] == nil {
			r.noVolume(at.Child("name"), d.Name, volumes)
		}
		if d.DevicePath == "" {
			r.required(at.Child("devicePath"), "")
		} else {
			r.noBackstep(at.Child("devicePath"), d.DevicePath)
			r.unique(at.Child("devicePath"), paths, d.DevicePath)
		}
	}
}

func validateMount(r *report, c *v1.Container, m *v1.VolumeMount, p *field.Path) {
	r.descending(p.Child("subPath"), m.SubPath)
	r.descending(p.Child("subPathExpr"), m.SubPathExpr)
	if m.SubPath != "" && m.SubPathExpr != "" {
		r.invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
	}
	optionalOneOf(r, p.Child("mountPropagation"), m.MountPropagation,
		v1.MountPropagationBidirectional, v1.MountPropagationHostToContainer, v1.MountPropagationNone)
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if m.MountPropagation != nil && *m.MountPropagation == v1.MountPropagationBidirectional && !privileged {
		r.forbidden(p.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers")
	}
	optionalOneOf(r, p.Child("recursiveReadOnly"), m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled,
		v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)
	if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled && !m.ReadOnly {
		r.forbidden(p.Child("recursiveReadOnly"), "may only be specified when readOnly is true")
	}
}
