// SPDX-License-Identifier: Apache-2.0

package statusmanager

import v1 "k8s.io/api/core/v1"

// Annotations that tell where a pod comes from, with the kubelet's names (1.36).
const (
	configSourceAnnotation = "kubernetes.io/config.source"
	configSourceAPI        = "api"
	configMirrorAnnotation = "kubernetes.io/config.mirror"
	configHashAnnotation   = "kubernetes.io/config.hash"
)

// isStatic reports whether a pod comes from somewhere else than the API server.
func isStatic(pod *v1.Pod) bool {
	source, ok := pod.Annotations[configSourceAnnotation]
	return ok && source != configSourceAPI
}

// isMirror reports whether a pod only shows a static pod on the API server.
func isMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[configMirrorAnnotation]
	return ok
}

// staticKey is what a static pod and its mirror pod share: the name, and the hash of the static pod.
type staticKey struct{ namespace, name, hash string }

func keyOf(pod *v1.Pod) staticKey {
	hash, ok := pod.Annotations[configMirrorAnnotation]
	if !ok {
		hash = pod.Annotations[configHashAnnotation]
	}
	return staticKey{pod.Namespace, pod.Name, hash}
}
