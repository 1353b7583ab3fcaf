// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Spec is a volume as plugins see it: one that the pod defines itself, or a
// persistent volume that Claims found for it. Exactly one of Volume and PV is
// set. It is shared and not written to.
type Spec struct {
	// Volume is the pod's own volume; not one with a claim.
	Volume *v1.Volume `json:"volume,omitempty"`
	// PV is the persistent volume behind the pod's claim.
	PV *v1.PersistentVolume `json:"pv,omitempty"`
	// ReadOnly is what the pod says of the use of its claim.
	ReadOnly bool `json:"readOnly,omitempty"`
	// GID is the PV's annotation pv.beta.kubernetes.io/gid; "" if it has none.
	GID string `json:"gid,omitempty"`
	// Size is the PV's capacity, Claimed what the claim's status says it has; the
	// volume is expanded from Claimed to Size. Zero if unknown.
	Size    resource.Quantity `json:"size,omitzero"`
	Claimed resource.Quantity `json:"claimed,omitzero"`
}

// InnerName is the name of the volume's folder: that of the PV, or of the pod's
// own volume. "" for a zero Spec.
func (s Spec) InnerName() string {
	switch {
	case s.PV != nil:
		return s.PV.Name
	case s.Volume != nil:
		return s.Volume.Name
	}
	return ""
}

// Block reports whether the volume is given to containers as a device.
func (s Spec) Block() bool {
	return s.PV != nil && s.PV.Spec.VolumeMode != nil && *s.PV.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// exclusive reports whether only one pod may have the volume at a time.
func (s Spec) exclusive() bool {
	return s.PV != nil && len(s.PV.Spec.AccessModes) == 1 && s.PV.Spec.AccessModes[0] == v1.ReadWriteOncePod
}
