// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	v1 "k8s.io/api/core/v1"
)

// ReferenceError tells that a pod needs an object from an API server.
type ReferenceError struct {
	// Resource is the kind of object in the kubelet's words, such as "secrets" or "secrets (via secret volumes)".
	Resource string
}

// Error has the kubelet's words.
func (e *ReferenceError) Error() string { return "static pods may not reference " + e.Resource }

// NoAPIReferences returns a *ReferenceError for the first reference to an API object, nil if there is none. It is what
// the kubelet does since 1.34 (gate PreventStaticPodAPIReferences): a static pod must run without an API server. What it
// does not know, it refuses.
func NoAPIReferences(pod *v1.Pod) error {
	if resource := firstReference(&pod.Spec); resource != "" {
		return &ReferenceError{Resource: resource}
	}
	return nil
}

func firstReference(spec *v1.PodSpec) string {
	if spec.ServiceAccountName != "" || spec.DeprecatedServiceAccount != "" {
		return "serviceaccounts"
	}
	if len(spec.ImagePullSecrets) > 0 {
		return "secrets"
	}
	for c := range containers(spec) {
		if resource := containerReference(c); resource != "" {
			return resource
		}
	}
	if len(spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	for i := range spec.Volumes {
		if resource := volumeReference(&spec.Volumes[i].VolumeSource); resource != "" {
			return resource
		}
	}
	return ""
}

func containerReference(c *v1.Container) string {
	for _, from := range c.EnvFrom {
		switch {
		case from.SecretRef != nil:
			return "secrets"
		case from.ConfigMapRef != nil:
			return "configmaps"
		}
	}
	for _, env := range c.Env {
		switch {
		case env.ValueFrom == nil:
		case env.ValueFrom.SecretKeyRef != nil:
			return "secrets"
		case env.ValueFrom.ConfigMapKeyRef != nil:
			return "configmaps"
		}
	}
	return ""
}

// volumeReference returns "" for the volumes that a node can mount by what the manifest says.
func volumeReference(v *v1.VolumeSource) string {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)"
	case v.Secret != nil:
		return "secrets (via secret volumes)"
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)"
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)"
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims"
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)"
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)"
	case v.Projected != nil:
		return projectedReference(v.Projected.Sources)
	case hasSecretRef(v):
		return "secrets"
	case isSelfContained(v):
		return ""
	}
	return "objects unknown to this node (via an unknown volume)"
}

func projectedReference(sources []v1.VolumeProjection) string {
	for i := range sources {
		s := &sources[i]
		switch {
		case s.ConfigMap != nil:
			return "configmaps (via projected volumes)"
		case s.Secret != nil:
			return "secrets (via projected volumes)"
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)"
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles"
		case s.PodCertificate != nil:
			return "podcertificates"
		case s.DownwardAPI != nil:
		default:
			return "objects unknown to this node (via an unknown projected source)"
		}
	}
	return ""
}

func hasSecretRef(v *v1.VolumeSource) bool {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef != nil
	case v.Cinder != nil:
		return v.Cinder.SecretRef != nil
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef != nil
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef != nil
	case v.RBD != nil:
		return v.RBD.SecretRef != nil
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef != nil
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef != nil
	}
	return false
}

// isSelfContained lists the allowed kinds, so that a kind added to the API later is refused until it is looked at.
func isSelfContained(v *v1.VolumeSource) bool {
	rest := *v
	rest.DownwardAPI, rest.EmptyDir, rest.HostPath, rest.Image = nil, nil, nil, nil
	rest.NFS, rest.ISCSI, rest.FC, rest.GitRepo = nil, nil, nil, nil
	rest.AWSElasticBlockStore, rest.AzureDisk, rest.CephFS, rest.Cinder, rest.FlexVolume = nil, nil, nil, nil, nil
	rest.Flocker, rest.GCEPersistentDisk, rest.PhotonPersistentDisk, rest.PortworxVolume = nil, nil, nil, nil
	rest.Quobyte, rest.RBD, rest.ScaleIO, rest.StorageOS, rest.VsphereVolume = nil, nil, nil, nil, nil
	return rest == (v1.VolumeSource{})
}
