// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeObject is object for a volume and the objects inside it. Of the remote volumes allowed in a
// static pod it checks the rules that apply to all nodes.
func (c *checker) volumeObject(x any, p *field.Path) {
	switch x := x.(type) {
	case *v1.Volume:
		c.needed(p.Child("name"), x.Name, "every volume needs a name", validation.IsDNS1123Label)
		if c.volumes[x.Name] != nil && x.Name != "" {
			c.duplicate(p.Child("name"), x.Name)
		}
		c.volumes[x.Name] = x
		c.exactlyOne(p, "volume type", x.VolumeSource)
	case *v1.HostPathVolumeSource:
		c.present(p.Child("path"), x.Path, "the path on the node")
		c.noBackstep(p.Child("path"), x.Path)
		optionalOneOf(&c.report, p.Child("type"), x.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
			v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)
	case *v1.EmptyDirVolumeSource:
		if x.SizeLimit != nil && x.SizeLimit.Sign() < 0 {
			c.invalid(p.Child("sizeLimit"), x.SizeLimit.String(), "must not be negative")
		}
	case *v1.ImageVolumeSource:
		c.present(p.Child("reference"), x.Reference, "")
		oneOf(&c.report, p.Child("pullPolicy"), x.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	case *v1.NFSVolumeSource:
		c.present(p.Child("server"), x.Server, "")
		if !strings.HasPrefix(x.Path, "/") {
			c.invalid(p.Child("path"), x.Path, "must be an absolute path")
		}
	case *v1.GitRepoVolumeSource:
		c.present(p.Child("repository"), x.Repository, "")
		c.descending(p.Child("directory"), x.Directory)
	case *v1.CSIVolumeSource:
		c.faults(p.Child("driver"), x.Driver, validation.IsDNS1123Subdomain(strings.ToLower(x.Driver)))
	case *v1.PersistentVolumeClaimVolumeSource:
		c.objectName(p.Child("claimName"), x.ClaimName)
	default:
		c.contentObject(x, p)
	}
}

// contentObject is object for a volume with files from objects of the API, and the objects inside
// it.
func (c *checker) contentObject(x any, p *field.Path) {
	switch x := x.(type) {
	case *v1.SecretVolumeSource:
		c.objectName(p.Child("secretName"), x.SecretName)
		c.mode(p.Child("defaultMode"), x.DefaultMode)
	case *v1.ConfigMapVolumeSource:
		c.objectName(p.Child("name"), x.Name)
		c.mode(p.Child("defaultMode"), x.DefaultMode)
	case *v1.DownwardAPIVolumeSource:
		c.mode(p.Child("defaultMode"), x.DefaultMode)
	case *v1.ProjectedVolumeSource:
		c.mode(p.Child("defaultMode"), x.DefaultMode)
	case *v1.VolumeProjection:
		c.exactlyOne(p, "projected source", *x)
	case *v1.SecretProjection:
		c.objectName(p.Child("name"), x.Name)
	case *v1.ConfigMapProjection:
		c.objectName(p.Child("name"), x.Name)
	case *v1.ServiceAccountTokenProjection:
		c.filePath(p.Child("path"), x.Path)
	case *v1.ClusterTrustBundleProjection:
		c.filePath(p.Child("path"), x.Path)
	case *v1.PodCertificateProjection:
		c.descending(p.Child("credentialBundlePath"), x.CredentialBundlePath)
		c.descending(p.Child("keyPath"), x.KeyPath)
		c.descending(p.Child("certificateChainPath"), x.CertificateChainPath)
	case *v1.KeyToPath:
		c.present(p.Child("key"), x.Key, "")
		c.filePath(p.Child("path"), x.Path)
		c.mode(p.Child("mode"), x.Mode)
	case *v1.DownwardAPIVolumeFile:
		c.filePath(p.Child("path"), x.Path)
		c.mode(p.Child("mode"), x.Mode)
		c.exactlyOne(p, "source: fieldRef or resourceFieldRef", *x)
		c.fieldRef(x.FieldRef, fileFields, p.Child("fieldRef"))
		if x.ResourceFieldRef != nil {
			c.present(p.Child("resourceFieldRef", "containerName"), x.ResourceFieldRef.ContainerName, "")
		}
	}
}

// filePath checks a path inside a volume written by a node. Names with a leading ".." are reserved
// for the writer.
func (c *checker) filePath(p *field.Path, path string) {
	if !c.present(p, path, "") {
		return
	}
	c.descending(p, path)
	if strings.HasPrefix(path, "..") && !strings.HasPrefix(path, "../") && path != ".." {
		c.invalid(p, path, "must not start with '..'")
	}
}

func (c *checker) mode(p *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		c.number(p, int64(*mode), "must be between 0 and 0777 (octal)")
	}
}
