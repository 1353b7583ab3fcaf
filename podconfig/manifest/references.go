// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	v1 "k8s.io/api/core/v1"
)

// ReferenceError means that a pod requires an object of an API server.
type ReferenceError struct {
	// Resource is the kind of object in the kubelet's words, such as "secrets" or "secrets (via
	// secret volumes)".
	Resource string
	// Field is the path of the referring field, such as "spec.volumes[0]".
	Field string
}

// Error returns the kubelet's text.
func (e *ReferenceError) Error() string { return "static pods may not reference " + e.Resource }

// NoAPIReferences returns a *ReferenceError for the first reference to an API object, or nil. It
// matches the kubelet since 1.34 (gate PreventStaticPodAPIReferences): a static pod must run
// without an API server. Unknown kinds of volumes are rejected.
func NoAPIReferences(pod *v1.Pod) error {
	if e := firstReference(&pod.Spec); e.Resource != "" {
		return &e
	}
	return nil
}

func firstReference(spec *v1.PodSpec) ReferenceError {
	switch {
	case spec.ServiceAccountName != "":
		return ReferenceError{"serviceaccounts", "spec.serviceAccountName"}
	case spec.DeprecatedServiceAccount != "":
		return ReferenceError{"serviceaccounts", "spec.serviceAccount"}
	case len(spec.ImagePullSecrets) > 0:
		return ReferenceError{"secrets", "spec.imagePullSecrets"}
	}
	for _, group := range []struct {
		path       string
		containers []v1.Container
	}{{"spec.initContainers", spec.InitContainers}, {"spec.containers", spec.Containers}} {
		for i := range group.containers {
			if e := containerReference(&group.containers[i]); e.Resource != "" {
				return ReferenceError{e.Resource, indexed(group.path, i) + "." + e.Field}
			}
		}
	}
	if len(spec.ResourceClaims) > 0 {
		return ReferenceError{"resourceclaims", "spec.resourceClaims"}
	}
	for i := range spec.Volumes {
		if resource := volumeReference(&spec.Volumes[i].VolumeSource); resource != "" {
			return ReferenceError{resource, indexed("spec.volumes", i)}
		}
	}
	return ReferenceError{}
}

// containerReference returns an error whose Field is relative to the container.
func containerReference(c *v1.Container) ReferenceError {
	for i, from := range c.EnvFrom {
		switch {
		case from.SecretRef != nil:
			return ReferenceError{"secrets", indexed("envFrom", i) + ".secretRef"}
		case from.ConfigMapRef != nil:
			return ReferenceError{"configmaps", indexed("envFrom", i) + ".configMapRef"}
		}
	}
	for i, env := range c.Env {
		switch {
		case env.ValueFrom == nil:
		case env.ValueFrom.SecretKeyRef != nil:
			return ReferenceError{"secrets", indexed("env", i) + ".valueFrom.secretKeyRef"}
		case env.ValueFrom.ConfigMapKeyRef != nil:
			return ReferenceError{"configmaps", indexed("env", i) + ".valueFrom.configMapKeyRef"}
		}
	}
	return ReferenceError{}
}

// volumeReference returns "" for volumes that a node can mount from the manifest alone.
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

// isSelfContained lists the allowed kinds. A kind added to the API later is rejected until it is
// added here.
func isSelfContained(v *v1.VolumeSource) bool {
	rest := *v
	rest.DownwardAPI, rest.EmptyDir, rest.HostPath, rest.Image = nil, nil, nil, nil
	rest.NFS, rest.ISCSI, rest.FC, rest.GitRepo = nil, nil, nil, nil
	rest.AWSElasticBlockStore, rest.AzureDisk, rest.CephFS, rest.Cinder, rest.FlexVolume = nil, nil, nil, nil, nil
	rest.Flocker, rest.GCEPersistentDisk, rest.PhotonPersistentDisk, rest.PortworxVolume = nil, nil, nil, nil
	rest.Quobyte, rest.RBD, rest.ScaleIO, rest.StorageOS, rest.VsphereVolume = nil, nil, nil, nil, nil
	return rest == (v1.VolumeSource{})
}
