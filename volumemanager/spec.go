// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Spec is a volume as plugins see it: a volume of the pod's own, or the persistent volume behind a
// claim, found by Claims. Exactly one of Volume and PV is set. A Spec is shared; do not write to
// it.
type Spec struct {
	// Volume is the pod's own volume without a claim.
	Volume *v1.Volume `json:"volume,omitempty"`
	// PV is the persistent volume behind the pod's claim.
	PV *v1.PersistentVolume `json:"pv,omitempty"`
	// ReadOnly is the read-only flag of the pod's claim volume.
	ReadOnly bool `json:"readOnly,omitempty"`
	// GID is the PV's annotation pv.beta.kubernetes.io/gid; "" if it has none.
	GID string `json:"gid,omitempty"`
	// Size is the PV's capacity, Claimed the capacity in the claim's status. The volume is expanded
	// from Claimed to Size. Zero if unknown.
	Size    resource.Quantity `json:"size,omitzero"`
	Claimed resource.Quantity `json:"claimed,omitzero"`
}

// InnerName returns the name of the volume's folder: the name of the PV, or of the pod's own
// volume. "" for a zero Spec.
func (s Spec) InnerName() string {
	switch {
	case s.PV != nil:
		return s.PV.Name
	case s.Volume != nil:
		return s.Volume.Name
	}
	return ""
}

// Block reports whether containers get the volume as a device.
func (s Spec) Block() bool {
	return s.PV != nil && s.PV.Spec.VolumeMode != nil && *s.PV.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// exclusive reports whether only one pod may use the volume at a time.
func (s Spec) exclusive() bool {
	return s.PV != nil && len(s.PV.Spec.AccessModes) == 1 && s.PV.Spec.AccessModes[0] == v1.ReadWriteOncePod
}
