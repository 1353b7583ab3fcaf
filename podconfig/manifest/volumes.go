// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	v1 "k8s.io/api/core/v1"
)

func setVolumeDefaults(v *v1.Volume) {
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	setFileVolumeDefaults(v)
	setRemoteVolumeDefaults(v)
}

// setFileVolumeDefaults sets the defaults of volumes with content created by the node.
func setFileVolumeDefaults(v *v1.Volume) {
	if v.HostPath != nil {
		setIfNil(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.Secret != nil {
		setIfNil(&v.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		setIfNil(&v.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		setIfNil(&v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		setDownwardDefaults(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		setIfNil(&v.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			setProjectionDefaults(&v.Projected.Sources[i])
		}
	}
	if v.Image != nil {
		setIfZero(&v.Image.PullPolicy, pullPolicyFor(v.Image.Reference))
	}
}

func setProjectionDefaults(p *v1.VolumeProjection) {
	if p.ServiceAccountToken != nil {
		setIfNil(&p.ServiceAccountToken.ExpirationSeconds, 3600)
	}
	if p.DownwardAPI != nil {
		setDownwardDefaults(p.DownwardAPI.Items)
	}
	if p.PodCertificate != nil {
		setIfNil(&p.PodCertificate.MaxExpirationSeconds, 86400)
	}
}

func setDownwardDefaults(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		setFieldRefDefaults(items[i].FieldRef)
	}
}

// setRemoteVolumeDefaults sets the defaults of remote volumes.
func setRemoteVolumeDefaults(v *v1.Volume) {
	if v.ISCSI != nil {
		setIfZero(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		setIfZero(&v.RBD.RBDPool, "rbd")
		setIfZero(&v.RBD.RadosUser, "admin")
		setIfZero(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.AzureDisk != nil {
		setIfNil(&v.AzureDisk.CachingMode, v1.AzureDataDiskCachingReadWrite)
		setIfNil(&v.AzureDisk.Kind, v1.AzureSharedBlobDisk)
		setIfNil(&v.AzureDisk.FSType, "ext4")
		setIfNil(&v.AzureDisk.ReadOnly, false)
	}
	if v.ScaleIO != nil {
		setIfZero(&v.ScaleIO.StorageMode, "ThinProvisioned")
		setIfZero(&v.ScaleIO.FSType, "xfs")
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		claim := &v.Ephemeral.VolumeClaimTemplate.Spec
		setIfNil(&claim.VolumeMode, v1.PersistentVolumeFilesystem)
		roundUp(claim.Resources.Limits)
		roundUp(claim.Resources.Requests)
	}
}
