// SPDX-License-Identifier: Apache-2.0

// Package podfield evaluates the fields of fieldRef that environment variables and downwardAPI volumes
// have in common.
package podfield

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Value returns the field of pod that ref names. The value of a missing label or annotation is "". ok is
// false for a path that is not common: the caller evaluates its own paths, and returns Unsupported for
// all others.
func Value(pod *v1.Pod, ref *v1.ObjectFieldSelector) (value string, ok bool, err error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", false, fmt.Errorf("unsupported apiVersion %q", ref.APIVersion)
	}
	if field, key, ok := cutSubscript(ref.FieldPath); ok {
		value, err := metadata(pod, field, key)
		return value, err == nil, err
	}
	switch ref.FieldPath {
	case "metadata.name":
		return pod.Name, true, nil
	case "metadata.namespace":
		return pod.Namespace, true, nil
	case "metadata.uid":
		return string(pod.UID), true, nil
	case "spec.nodeName":
		return pod.Spec.NodeName, true, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, true, nil
	}
	return "", false, nil
}

// Unsupported returns the error for a path that neither Value nor the caller knows.
func Unsupported(ref *v1.ObjectFieldSelector) error {
	return fmt.Errorf("unsupported fieldPath %q", ref.FieldPath)
}

// cutSubscript splits "field['key']".
func cutSubscript(path string) (field, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	field, key, ok = strings.Cut(rest, "['")
	return field, key, ok && field != ""
}

// metadata returns a single label or annotation.
func metadata(pod *v1.Pod, field, key string) (string, error) {
	from, qualified := pod.Labels, key
	switch field {
	case "metadata.labels":
	case "metadata.annotations":
		// The keys of annotations are case-insensitive qualified names.
		from, qualified = pod.Annotations, strings.ToLower(key)
	default:
		return "", fmt.Errorf("unsupported fieldPath \"%s['…']\"", field)
	}
	if bad := validation.IsQualifiedName(qualified); len(bad) > 0 {
		return "", fmt.Errorf("invalid key %q of %s: %s", key, field, bad[0])
	}
	return from[key], nil
}
