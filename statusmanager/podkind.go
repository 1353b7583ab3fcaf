// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// staticKey is common to a static pod and its mirror pod: the name, and the hash of the static pod.
type staticKey struct{ namespace, name, hash string }

func keyOf(pod *v1.Pod) staticKey {
	hash, ok := pod.Annotations[podfacts.AnnotationMirror]
	if !ok {
		hash = pod.Annotations[podfacts.AnnotationHash]
	}
	return staticKey{pod.Namespace, pod.Name, hash}
}
