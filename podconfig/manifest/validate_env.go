// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fields supported by the downward API, for variables and for files.
var (
	envFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
		"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	fileFields    = []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
	resourceNames = []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage"}
)

func validateEnv(r *report, env []v1.EnvVar, volumes map[string]*v1.Volume, p *field.Path) {
	for i := range env {
		at := p.Index(i)
		if env[i].Name == "" {
			r.required(at.Child("name"), "every variable needs a name")
		} else {
			r.faults(at.Child("name"), env[i].Name, validation.IsRelaxedEnvVarName(env[i].Name))
		}
		r.noZero(at.Child("value"), env[i].Value)
		if env[i].ValueFrom != nil {
			validateEnvSource(r, &env[i], volumes, at.Child("valueFrom"))
		}
	}
}

func validateEnvSource(r *report, env *v1.EnvVar, volumes map[string]*v1.Volume, p *field.Path) {
	from := env.ValueFrom
	if env.Value != "" {
		r.forbidden(p, "may not be specified when value is not empty")
	}
	r.exactlyOne(p, "source: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef",
		from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil,
		from.FileKeyRef != nil)
	if from.FieldRef != nil {
		validateFieldRef(r, from.FieldRef, envFields, p.Child("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		validateResourceFieldRef(r, from.ResourceFieldRef, p.Child("resourceFieldRef"))
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		validateKeyRef(r, ref.Name, ref.Key, p.Child("configMapKeyRef"))
	}
	if ref := from.SecretKeyRef; ref != nil {
		validateKeyRef(r, ref.Name, ref.Key, p.Child("secretKeyRef"))
	}
	if ref := from.FileKeyRef; ref != nil {
		validateFileKeyRef(r, ref, volumes, p.Child("fileKeyRef"))
	}
}

func validateKeyRef(r *report, name, key string, p *field.Path) {
	if name != "" {
		r.faults(p.Child("name"), name, validation.IsDNS1123Subdomain(name))
	}
	if key == "" {
		r.required(p.Child("key"), "")
	} else {
		r.faults(p.Child("key"), key, validation.IsConfigMapKey(key))
	}
}

func validateFileKeyRef(r *report, ref *v1.FileKeySelector, volumes map[string]*v1.Volume, p *field.Path) {
	if ref.Key == "" {
		r.required(p.Child("key"), "")
	} else {
		r.faults(p.Child("key"), ref.Key, validation.IsRelaxedEnvVarName(ref.Key))
	}
	if ref.Path == "" {
		r.required(p.Child("path"), "")
	} else {
		r.descending(p.Child("path"), ref.Path)
	}
	switch v := volumes[ref.VolumeName]; {
	case ref.VolumeName == "":
		r.required(p.Child("volumeName"), "")
	case v == nil:
		r.noVolume(p.Child("volumeName"), ref.VolumeName, volumes)
	case v.EmptyDir == nil:
		r.invalid(p.Child("volumeName"), ref.VolumeName, "must be an emptyDir volume")
	}
}

func validateFieldRef(r *report, ref *v1.ObjectFieldSelector, allowed []string, p *field.Path) {
	if ref.APIVersion != "v1" {
		r.invalid(p.Child("apiVersion"), ref.APIVersion, `must be "v1"`)
	}
	if ref.FieldPath == "" {
		r.required(p.Child("fieldPath"), "")
		return
	}
	base, key, hasKey := strings.Cut(strings.TrimSuffix(ref.FieldPath, "']"), "['")
	if hasKey && strings.HasSuffix(ref.FieldPath, "']") && (base == "metadata.labels" || base == "metadata.annotations") {
		r.faults(p.Child("fieldPath"), key, validation.IsQualifiedName(strings.ToLower(key)))
		return
	}
	if !slices.Contains(allowed, ref.FieldPath) {
		optionalOneOf(r, p.Child("fieldPath"), &ref.FieldPath, allowed...)
	}
}

func validateResourceFieldRef(r *report, ref *v1.ResourceFieldSelector, p *field.Path) {
	if ref.Resource == "" {
		r.required(p.Child("resource"), "")
	} else if !slices.Contains(resourceNames, ref.Resource) && !strings.HasPrefix(ref.Resource, "limits.hugepages-") &&
		!strings.HasPrefix(ref.Resource, "requests.hugepages-") {
		r.errs = append(r.errs, field.NotSupported(p.Child("resource"), shorten(ref.Resource), resourceNames))
	}
	if ref.ContainerName != "" {
		r.faults(p.Child("containerName"), ref.ContainerName, validation.IsDNS1123Label(ref.ContainerName))
	}
	if ref.Divisor.Sign() < 0 {
		r.invalid(p.Child("divisor"), ref.Divisor.String(), "must not be negative")
	}
}

func validateEnvFrom(r *report, sources []v1.EnvFromSource, p *field.Path) {
	for i, from := range sources {
		at := p.Index(i)
		if from.Prefix != "" {
			r.faults(at.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName(from.Prefix))
		}
		r.exactlyOne(at, "source: configMapRef or secretRef", from.ConfigMapRef != nil, from.SecretRef != nil)
		if from.ConfigMapRef != nil {
			validateRefName(r, from.ConfigMapRef.Name, at.Child("configMapRef", "name"))
		}
		if from.SecretRef != nil {
			validateRefName(r, from.SecretRef.Name, at.Child("secretRef", "name"))
		}
	}
}

func validateRefName(r *report, name string, p *field.Path) {
	if name == "" {
		r.required(p, "")
		return
	}
	r.faults(p, name, validation.IsDNS1123Subdomain(name))
}
