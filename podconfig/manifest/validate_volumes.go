// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateVolumes returns the volumes by name.
func validateVolumes(r *report, volumes []v1.Volume, p *field.Path) map[string]*v1.Volume {
	byName, names := map[string]*v1.Volume{}, map[string]bool{}
	for i := range volumes {
		at := p.Index(i)
		if volumes[i].Name == "" {
			r.required(at.Child("name"), "every volume needs a name")
		} else {
			r.faults(at.Child("name"), volumes[i].Name, validation.IsDNS1123Label(volumes[i].Name))
			r.unique(at.Child("name"), names, volumes[i].Name)
		}
		validateVolume(r, &volumes[i].VolumeSource, at)
		byName[volumes[i].Name] = &volumes[i]
	}
	return byName
}

func validateVolume(r *report, v *v1.VolumeSource, p *field.Path) {
	if kinds := volumeKinds(v); kinds != 1 {
		r.exactlyOne(p, "volume type", kinds > 0, kinds > 1)
	}
	switch {
	case v.HostPath != nil:
		validateHostPath(r, v.HostPath, p.Child("hostPath"))
	case v.EmptyDir != nil:
		if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
			r.invalid(p.Child("emptyDir", "sizeLimit"), limit.String(), "must not be negative")
		}
	case v.Secret != nil:
		validateRefName(r, v.Secret.SecretName, p.Child("secret", "secretName"))
		validateMode(r, v.Secret.DefaultMode, p.Child("secret", "defaultMode"))
		validateKeyPaths(r, v.Secret.Items, p.Child("secret", "items"))
	case v.ConfigMap != nil:
		validateRefName(r, v.ConfigMap.Name, p.Child("configMap", "name"))
		validateMode(r, v.ConfigMap.DefaultMode, p.Child("configMap", "defaultMode"))
		validateKeyPaths(r, v.ConfigMap.Items, p.Child("configMap", "items"))
	case v.DownwardAPI != nil:
		validateMode(r, v.DownwardAPI.DefaultMode, p.Child("downwardAPI", "defaultMode"))
		validateDownwardFiles(r, v.DownwardAPI.Items, p.Child("downwardAPI", "items"))
	case v.Projected != nil:
		validateMode(r, v.Projected.DefaultMode, p.Child("projected", "defaultMode"))
		for i := range v.Projected.Sources {
			validateProjection(r, &v.Projected.Sources[i], p.Child("projected", "sources").Index(i))
		}
	default:
		validateRemoteVolume(r, v, p)
	}
}

func validateHostPath(r *report, hp *v1.HostPathVolumeSource, p *field.Path) {
	if hp.Path == "" {
		r.required(p.Child("path"), "the path on the node")
	}
	r.noBackstep(p.Child("path"), hp.Path)
	optionalOneOf(r, p.Child("type"), hp.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
		v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)
}

// validateRemoteVolume checks the remote volumes allowed in a static pod, as far as their rules
// apply to all nodes.
func validateRemoteVolume(r *report, v *v1.VolumeSource, p *field.Path) {
	switch {
	case v.Image != nil:
		if v.Image.Reference == "" {
			r.required(p.Child("image", "reference"), "")
		}
		oneOf(r, p.Child("image", "pullPolicy"), v.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	case v.NFS != nil:
		if v.NFS.Server == "" {
			r.required(p.Child("nfs", "server"), "")
		}
		if !strings.HasPrefix(v.NFS.Path, "/") {
			r.invalid(p.Child("nfs", "path"), v.NFS.Path, "must be an absolute path")
		}
	case v.GitRepo != nil:
		if v.GitRepo.Repository == "" {
			r.required(p.Child("gitRepo", "repository"), "")
		}
		r.descending(p.Child("gitRepo", "directory"), v.GitRepo.Directory)
	case v.CSI != nil:
		r.faults(p.Child("csi", "driver"), v.CSI.Driver, validation.IsDNS1123Subdomain(strings.ToLower(v.CSI.Driver)))
	case v.PersistentVolumeClaim != nil:
		validateRefName(r, v.PersistentVolumeClaim.ClaimName, p.Child("persistentVolumeClaim", "claimName"))
	}
}

func validateProjection(r *report, s *v1.VolumeProjection, p *field.Path) {
	r.exactlyOne(p, "projected source", s.Secret != nil, s.ConfigMap != nil, s.DownwardAPI != nil,
		s.ServiceAccountToken != nil, s.ClusterTrustBundle != nil, s.PodCertificate != nil)
	if s.Secret != nil {
		validateRefName(r, s.Secret.Name, p.Child("secret", "name"))
		validateKeyPaths(r, s.Secret.Items, p.Child("secret", "items"))
	}
	if s.ConfigMap != nil {
		validateRefName(r, s.ConfigMap.Name, p.Child("configMap", "name"))
		validateKeyPaths(r, s.ConfigMap.Items, p.Child("configMap", "items"))
	}
	if s.DownwardAPI != nil {
		validateDownwardFiles(r, s.DownwardAPI.Items, p.Child("downwardAPI", "items"))
	}
	if s.ServiceAccountToken != nil {
		validateFilePath(r, s.ServiceAccountToken.Path, p.Child("serviceAccountToken", "path"))
	}
	if s.ClusterTrustBundle != nil {
		validateFilePath(r, s.ClusterTrustBundle.Path, p.Child("clusterTrustBundle", "path"))
	}
	if c := s.PodCertificate; c != nil {
		r.descending(p.Child("podCertificate", "credentialBundlePath"), c.CredentialBundlePath)
		r.descending(p.Child("podCertificate", "keyPath"), c.KeyPath)
		r.descending(p.Child("podCertificate", "certificateChainPath"), c.CertificateChainPath)
	}
}

func validateKeyPaths(r *report, items []v1.KeyToPath, p *field.Path) {
	for i, item := range items {
		if item.Key == "" {
			r.required(p.Index(i).Child("key"), "")
		}
		validateFilePath(r, item.Path, p.Index(i).Child("path"))
		validateMode(r, item.Mode, p.Index(i).Child("mode"))
	}
}

func validateDownwardFiles(r *report, items []v1.DownwardAPIVolumeFile, p *field.Path) {
	for i := range items {
		at := p.Index(i)
		validateFilePath(r, items[i].Path, at.Child("path"))
		validateMode(r, items[i].Mode, at.Child("mode"))
		r.exactlyOne(at, "source: fieldRef or resourceFieldRef", items[i].FieldRef != nil, items[i].ResourceFieldRef != nil)
		if items[i].FieldRef != nil {
			validateFieldRef(r, items[i].FieldRef, fileFields, at.Child("fieldRef"))
		}
		if ref := items[i].ResourceFieldRef; ref != nil {
			validateResourceFieldRef(r, ref, at.Child("resourceFieldRef"))
			if ref.ContainerName == "" {
				r.required(at.Child("resourceFieldRef", "containerName"), "")
			}
		}
	}
}

// validateFilePath checks a path inside a volume written by a node. Names with a leading ".." are
// reserved for the writer.
func validateFilePath(r *report, path string, p *field.Path) {
	if path == "" {
		r.required(p, "")
		return
	}
	r.descending(p, path)
	if strings.HasPrefix(path, "..") && !strings.HasPrefix(path, "../") && path != ".." {
		r.invalid(p, path, "must not start with '..'")
	}
}

func validateMode(r *report, mode *int32, p *field.Path) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		r.number(p, int64(*mode), "must be between 0 and 0777 (octal)")
	}
}
