// SPDX-License-Identifier: Apache-2.0

package podconfig

import v1 "k8s.io/api/core/v1"

// Names of the three sources a kubelet has. Any other non-empty name works as well; SourceAPI alone is special, see
// IsStatic and Store.Merge.
const (
	SourceFile = "file"
	SourceHTTP = "http"
	SourceAPI  = "api"
)

// Annotation keys with the kubelet's spelling. The first three are local: the agent owns them, a change of theirs is no
// update, and a stored value survives later updates of the pod.
const (
	// AnnotationSource holds the name of the source a pod came from; Store.Merge writes it.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationMirror marks a mirror pod; its value is the AnnotationHash of the static pod.
	AnnotationMirror = v1.MirrorPodAnnotationKey
	// AnnotationFirstSeen holds the time at which the pod entered its source; Store.Merge writes it. See FirstSeen.
	AnnotationFirstSeen = "kubernetes.io/config.seen"
	// AnnotationHash holds the content hash of a static pod. It is not local: its change is an update.
	AnnotationHash = "kubernetes.io/config.hash"
)

// isLocal tells whether the agent owns the annotation key.
func isLocal(key string) bool {
	return key == AnnotationSource || key == AnnotationMirror || key == AnnotationFirstSeen
}
