// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxObjectName is the limit of Kubernetes for names.
const maxObjectName = validation.DNS1123SubdomainMaxLength

func (e *expansion) addConfigMap() {
	var c v1.ConfigMap
	if !e.decode(&c) || !e.name(&c.ObjectMeta, maxObjectName) {
		return
	}
	checkKeys(e, "data", c.Data)
	checkKeys(e, "binaryData", c.BinaryData)
	for key := range c.BinaryData {
		if _, twice := c.Data[key]; twice {
			e.refuse("binaryData["+key+"]", "data has the same key")
		}
	}
	e.set.ConfigMaps = append(e.set.ConfigMaps, &c)
}

func (e *expansion) addSecret() {
	var s v1.Secret
	if !e.decode(&s) || !e.name(&s.ObjectMeta, maxObjectName) {
		return
	}
	checkKeys(e, "data", s.Data)
	checkKeys(e, "stringData", s.StringData)
	for key, text := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(text)
	}
	s.StringData = nil
	s.Type = cmp.Or(s.Type, v1.SecretTypeOpaque)
	e.set.Secrets = append(e.set.Secrets, &s)
}

// checkKeys refuses keys that cannot be names of files.
func checkKeys[V any](e *expansion, field string, data map[string]V) {
	for key := range data {
		if len(validation.IsConfigMapKey(key)) > 0 {
			e.refuseField(field, "a key is not a name of at most 253 letters, digits, '-', '_' and '.'")
			return
		}
	}
}

// claimSpec is the spec of a PersistentVolumeClaim.
type claimSpec struct {
	AccessModes []v1.PersistentVolumeAccessMode `json:"accessModes"`
	Resources   v1.VolumeResourceRequirements   `json:"resources"`
	Class       *string                         `json:"storageClassName"`
	VolumeMode  string                          `json:"volumeMode"`

	VolumeName      json.RawMessage `json:"volumeName"`
	Selector        json.RawMessage `json:"selector"`
	DataSource      json.RawMessage `json:"dataSource"`
	DataSourceRef   json.RawMessage `json:"dataSourceRef"`
	AttributesClass json.RawMessage `json:"volumeAttributesClassName"`
}

func (e *expansion) addClaim() {
	var c object[claimSpec]
	if !e.decode(&c) || !e.name(&c.Metadata, maxObjectName) || !e.checkClaim("", &c, c.Metadata.Name) {
		return
	}
	e.set.Claims = append(e.set.Claims, c.Spec.claim(c.Metadata.Namespace, c.Metadata.Name, c.Metadata.Labels))
}

// checkClaim checks a claim, or a template of the named claims in the claim's namespace. prefix is the
// path of the claim in the object.
func (e *expansion) checkClaim(prefix string, claim *object[claimSpec], names ...string) bool {
	c := &claim.Spec
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod}
	size, sized := c.Resources.Requests[v1.ResourceStorage]
	field, text := "", ""
	switch {
	case len(c.AccessModes) == 0:
		field, text = "spec.accessModes", "Required value: for example [ReadWriteOnce]"
	case slices.ContainsFunc(c.AccessModes, func(m v1.PersistentVolumeAccessMode) bool { return !slices.Contains(modes, m) }):
		field, text = "spec.accessModes", fmt.Sprintf("want some of %q", modes)
	case !sized || size.Sign() <= 0:
		field, text = "spec.resources.requests", "Required value: storage, for example 1Gi"
	case c.VolumeMode != "" && c.VolumeMode != string(v1.PersistentVolumeFilesystem):
		field, text = "spec.volumeMode", "a claim of this node is a folder: want Filesystem; for a device use a hostPath volume"
	case c.VolumeName != nil:
		field, text = "spec.volumeName", noVolumes
	case c.Selector != nil:
		field, text = "spec.selector", noVolumes
	case c.DataSource != nil || c.DataSourceRef != nil:
		field, text = "spec.dataSource", "this node has no snapshots: fill the volume in an init container"
	case c.AttributesClass != nil:
		field, text = "spec.volumeAttributesClassName", "this node has no attributes of volumes: remove it"
	default:
		return e.checkClass(prefix, claim, names)
	}
	e.refuse(prefix+field, text)
	return false
}

// checkClass checks the class of a claim. A class that the node has no longer is a notice if all of the
// named claims have their volumes.
func (e *expansion) checkClass(prefix string, claim *object[claimSpec], names []string) bool {
	classes := e.Classes
	if classes == nil {
		classes = []string{DefaultClass}
	}
	field, class := "spec.storageClassName", ""
	if claim.Spec.Class != nil {
		class = *claim.Spec.Class
	}
	if old, ok := claim.Metadata.Annotations[v1.BetaStorageClassAnnotation]; ok { // it precedes the field in Kubernetes
		field, class = "metadata.annotations["+v1.BetaStorageClassAnnotation+"]", old
	}
	unbound := func(name string) bool { return e.Bound == nil || !e.Bound(claim.Metadata.Namespace, name) }
	switch {
	case class == "" || slices.Contains(classes, class):
		return true
	case len(validation.IsDNS1123Subdomain(class)) > 0:
		e.refuse(prefix+field, fmt.Sprintf("no name of a class: this node has the classes %q", classes))
		return false
	case slices.ContainsFunc(names, unbound):
		e.refuse(prefix+field, fmt.Sprintf("this node has the classes %q: set one of them, remove the field, or add the class to the node (nodeagent --storage-class %s)", classes, class))
		return false
	}
	e.notice(prefix+field, "ignored: this node does not have the class any more, and the claim keeps its folder")
	return true
}

const noVolumes = "a claim of this node is a new folder: remove it; for an existing folder use a hostPath volume"

// claim returns the object of a claim.
func (c *claimSpec) claim(namespace, name string, labels map[string]string) *v1.PersistentVolumeClaim {
	mode := v1.PersistentVolumeFilesystem
	return &v1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       v1.PersistentVolumeClaimSpec{AccessModes: c.AccessModes, Resources: c.Resources, StorageClassName: c.Class, VolumeMode: &mode},
	}
}
