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

// envObject is object for an environment variable and the objects inside it.
func (c *checker) envObject(x any, p *field.Path) {
	switch x := x.(type) {
	case *v1.EnvVar:
		c.needed(p.Child("name"), x.Name, "every variable needs a name", validation.IsRelaxedEnvVarName)
		c.noZero(p.Child("value"), x.Value)
		if x.ValueFrom == nil {
			return
		}
		at := p.Child("valueFrom")
		if x.Value != "" {
			c.forbidden(at, "may not be specified when value is not empty")
		}
		c.exactlyOne(at, "source: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef", *x.ValueFrom)
		c.fieldRef(x.ValueFrom.FieldRef, envFields, at.Child("fieldRef"))
	case *v1.EnvFromSource:
		c.optional(p.Child("prefix"), x.Prefix, validation.IsRelaxedEnvVarName)
		c.exactlyOne(p, "source: configMapRef or secretRef", *x)
	case *v1.ConfigMapEnvSource:
		c.objectName(p.Child("name"), x.Name)
	case *v1.SecretEnvSource:
		c.objectName(p.Child("name"), x.Name)
	case *v1.ConfigMapKeySelector:
		c.optional(p.Child("name"), x.Name, validation.IsDNS1123Subdomain)
		c.needed(p.Child("key"), x.Key, "", validation.IsConfigMapKey)
	case *v1.SecretKeySelector:
		c.optional(p.Child("name"), x.Name, validation.IsDNS1123Subdomain)
		c.needed(p.Child("key"), x.Key, "", validation.IsConfigMapKey)
	case *v1.FileKeySelector:
		c.fileKey(x, p)
	case *v1.ResourceFieldSelector:
		c.resourceField(x, p)
	}
}

// objectName checks the required name of an object of the API.
func (c *checker) objectName(p *field.Path, name string) {
	c.needed(p, name, "", validation.IsDNS1123Subdomain)
}

func (c *checker) fileKey(ref *v1.FileKeySelector, p *field.Path) {
	c.needed(p.Child("key"), ref.Key, "", validation.IsRelaxedEnvVarName)
	if c.present(p.Child("path"), ref.Path, "") {
		c.descending(p.Child("path"), ref.Path)
	}
	switch v := c.volumes[ref.VolumeName]; {
	case ref.VolumeName == "":
		c.required(p.Child("volumeName"), "")
	case v == nil:
		c.noVolume(p.Child("volumeName"), ref.VolumeName, c.volumes)
	case v.EmptyDir == nil:
		c.invalid(p.Child("volumeName"), ref.VolumeName, "must be an emptyDir volume")
	}
}

// fieldRef checks a reference to a field of the pod, if any.
func (c *checker) fieldRef(ref *v1.ObjectFieldSelector, allowed []string, p *field.Path) {
	if ref == nil {
		return
	}
	if ref.APIVersion != "v1" {
		c.invalid(p.Child("apiVersion"), ref.APIVersion, `must be "v1"`)
	}
	if !c.present(p.Child("fieldPath"), ref.FieldPath, "") {
		return
	}
	base, key, hasKey := strings.Cut(strings.TrimSuffix(ref.FieldPath, "']"), "['")
	if hasKey && strings.HasSuffix(ref.FieldPath, "']") && (base == "metadata.labels" || base == "metadata.annotations") {
		c.faults(p.Child("fieldPath"), key, validation.IsQualifiedName(strings.ToLower(key)))
		return
	}
	optionalOneOf(&c.report, p.Child("fieldPath"), &ref.FieldPath, allowed...)
}

func (c *checker) resourceField(ref *v1.ResourceFieldSelector, p *field.Path) {
	if ref.Resource == "" {
		c.required(p.Child("resource"), "")
	} else if !slices.Contains(resourceNames, ref.Resource) && !strings.HasPrefix(ref.Resource, "limits.hugepages-") &&
		!strings.HasPrefix(ref.Resource, "requests.hugepages-") {
		c.errs = append(c.errs, field.NotSupported(p.Child("resource"), shorten(ref.Resource), resourceNames))
	}
	c.optional(p.Child("containerName"), ref.ContainerName, validation.IsDNS1123Label)
	if ref.Divisor.Sign() < 0 {
		c.invalid(p.Child("divisor"), ref.Divisor.String(), "must not be negative")
	}
}
