// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SetDefaults sets the defaults of an API server (1.36) without admission plugins in a pod of the
// core/v1 API. It is idempotent. Scheduling fields have no defaults in the API server either.
func SetDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	visit(reflect.ValueOf(spec), nil, func(x any, _ *field.Path) bool {
		setDefaults(x, spec.HostNetwork)
		return true
	})
	setPodResourceDefaults(spec)
}

// setDefaults sets the defaults of a struct of a pod spec, without the structs inside it.
func setDefaults(x any, hostNetwork bool) {
	switch x := x.(type) {
	case *v1.PodSpec:
		setSpecDefaults(x)
	case *v1.Container:
		setContainerDefaults(x)
	case *v1.EphemeralContainerCommon:
		setContainerDefaults((*v1.Container)(x))
	case *v1.ContainerPort:
		setIfZero(&x.Protocol, v1.ProtocolTCP)
		if hostNetwork {
			setIfZero(&x.HostPort, x.ContainerPort)
		}
	case *v1.FileKeySelector:
		setIfNil(&x.Optional, false)
	case *v1.ObjectFieldSelector:
		setIfZero(&x.APIVersion, "v1")
	case *v1.Probe:
		setIfZero(&x.TimeoutSeconds, 1)
		setIfZero(&x.PeriodSeconds, 10)
		setIfZero(&x.SuccessThreshold, 1)
		setIfZero(&x.FailureThreshold, 3)
	case *v1.HTTPGetAction:
		setIfZero(&x.Path, "/")
		setIfZero(&x.Scheme, v1.URISchemeHTTP)
	case *v1.GRPCAction:
		setIfNil(&x.Service, "")
	case *v1.Volume:
		if x.VolumeSource == (v1.VolumeSource{}) {
			x.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	default:
		setVolumeDefaults(x)
	}
}

func setSpecDefaults(spec *v1.PodSpec) {
	setIfZero(&spec.RestartPolicy, v1.RestartPolicyAlways)
	setIfZero(&spec.DNSPolicy, v1.DNSClusterFirst)
	setIfZero(&spec.SchedulerName, v1.DefaultSchedulerName)
	setIfNil(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	setIfNil(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	setIfNil(&spec.SecurityContext, v1.PodSecurityContext{})
	// The API server treats the two service account fields as a single field; the new field wins.
	setIfZero(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	roundUp(spec.Overhead)
}

func setContainerDefaults(c *v1.Container) {
	setIfZero(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setIfZero(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	setIfZero(&c.ImagePullPolicy, pullPolicyFor(c.Image))
	setResourceDefaults(&c.Resources)
}

// setVolumeDefaults sets the defaults of the source of a volume, or of a struct inside a source.
func setVolumeDefaults(x any) {
	switch x := x.(type) {
	case *v1.HostPathVolumeSource:
		setIfNil(&x.Type, v1.HostPathUnset)
	case *v1.SecretVolumeSource:
		setIfNil(&x.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	case *v1.ConfigMapVolumeSource:
		setIfNil(&x.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	case *v1.DownwardAPIVolumeSource:
		setIfNil(&x.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
	case *v1.ProjectedVolumeSource:
		setIfNil(&x.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	case *v1.ServiceAccountTokenProjection:
		setIfNil(&x.ExpirationSeconds, 3600)
	case *v1.PodCertificateProjection:
		setIfNil(&x.MaxExpirationSeconds, 86400)
	case *v1.ImageVolumeSource:
		setIfZero(&x.PullPolicy, pullPolicyFor(x.Reference))
	case *v1.ISCSIVolumeSource:
		setIfZero(&x.ISCSIInterface, "default")
	case *v1.RBDVolumeSource:
		setIfZero(&x.RBDPool, "rbd")
		setIfZero(&x.RadosUser, "admin")
		setIfZero(&x.Keyring, "/etc/ceph/keyring")
	case *v1.AzureDiskVolumeSource:
		setIfNil(&x.CachingMode, v1.AzureDataDiskCachingReadWrite)
		setIfNil(&x.Kind, v1.AzureSharedBlobDisk)
		setIfNil(&x.FSType, "ext4")
		setIfNil(&x.ReadOnly, false)
	case *v1.ScaleIOVolumeSource:
		setIfZero(&x.StorageMode, "ThinProvisioned")
		setIfZero(&x.FSType, "xfs")
	case *v1.EphemeralVolumeSource:
		if x.VolumeClaimTemplate != nil {
			claim := &x.VolumeClaimTemplate.Spec
			setIfNil(&claim.VolumeMode, v1.PersistentVolumeFilesystem)
			roundUp(claim.Resources.Limits)
			roundUp(claim.Resources.Requests)
		}
	}
}

// pullPolicyFor returns Always if the image name does not pin a version: the tag is missing or
// "latest".
func pullPolicyFor(image string) v1.PullPolicy {
	name, _, hasDigest := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:] // the port of a registry is not a tag
	_, tag, hasTag := strings.Cut(name, ":")
	if tag == "latest" || !hasTag && !hasDigest {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
