// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfield"
)

// field returns the field of the pod named by ref. A missing label or annotation is "".
func field(pod *v1.Pod, ref *v1.ObjectFieldSelector) (string, error) {
	if value, ok, err := podfield.Value(pod, ref); ok || err != nil {
		return value, err
	}
	switch ref.FieldPath {
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	}
	return "", podfield.Unsupported(ref)
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
