// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// Names of the kubelet's three sources. Any other non-empty name is valid, too. Only SourceAPI has
// a special meaning, see IsStatic and Store.Merge.
const (
	SourceFile = "file"
	SourceHTTP = "http"
	SourceAPI  = podfacts.SourceAPI
)

// Annotation keys with the kubelet's spelling. The first three are local: the agent owns them, a
// change of their value is no update, and a stored value survives later updates of the pod.
const (
	// AnnotationSource holds the name of the pod's source. Store.Merge writes it.
	AnnotationSource = podfacts.AnnotationSource
	// AnnotationMirror marks a mirror pod; its value is the AnnotationHash of the static pod.
	AnnotationMirror = v1.MirrorPodAnnotationKey
	// AnnotationFirstSeen holds the time at which the pod entered its source. Store.Merge writes
	// it. See FirstSeen.
	AnnotationFirstSeen = "kubernetes.io/config.seen"
	// AnnotationHash holds the content hash of a static pod. It is not local: a new hash is an
	// update.
	AnnotationHash = podfacts.AnnotationHash
)

// isLocal reports whether the agent owns the annotation key.
func isLocal(key string) bool {
	return key == AnnotationSource || key == AnnotationMirror || key == AnnotationFirstSeen
}
