// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// field returns the field of the pod named by ref. A missing label or annotation is "".
func field(pod *v1.Pod, ref *v1.ObjectFieldSelector) (string, error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", fmt.Errorf("unsupported apiVersion %q", ref.APIVersion)
	}
	if what, key, ok := subscript(ref.FieldPath); ok {
		return metadataKey(pod, what, key)
	}
	switch ref.FieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	}
	return "", fmt.Errorf("unsupported fieldPath %q", ref.FieldPath)
}

// subscript splits "field['key']".
func subscript(path string) (what, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	what, key, ok = strings.Cut(rest, "['")
	return what, key, ok && what != ""
}

func metadataKey(pod *v1.Pod, what, key string) (string, error) {
	from, qualified := pod.Labels, key
	switch what {
	case "metadata.labels":
	case "metadata.annotations":
		// Annotation keys are qualified names regardless of case.
		from, qualified = pod.Annotations, strings.ToLower(key)
	default:
		return "", fmt.Errorf("unsupported fieldPath \"%s['…']\"", what)
	}
	if bad := validation.IsQualifiedName(qualified); len(bad) > 0 {
		return "", fmt.Errorf("invalid key %q of %s: %s", key, what, bad[0])
	}
	return from[key], nil
}

// lines returns the entries of a map as sorted lines key="value", with the value quoted.
func lines(m map[string]string) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(k + "=" + strconv.Quote(m[k]))
	}
	return b.String()
}
