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

// Annotations of pods about their updates. They are written into manifests, see package updates of the
// reference program. Package kinds sets them for the fields of a Deployment.
const (
	// AnnotationUpdate is the policy, such as Replace or Transactional.
	AnnotationUpdate = "keelson.dev/update"
	// AnnotationUpdateReady is the time, in seconds, for which the new pod has to be ready.
	// AnnotationUpdateDeadline limits the time, in seconds, until the new pod has been ready for so
	// long.
	AnnotationUpdateReady    = "keelson.dev/update-gate-seconds"
	AnnotationUpdateDeadline = "keelson.dev/update-deadline-seconds"
	// AnnotationUpdateHold delays a change as long as it is "true".
	AnnotationUpdateHold = "keelson.dev/update-hold"
)

// localKeys are the annotations that the agent owns.
var localKeys = []string{AnnotationSource, AnnotationFirstSeen, AnnotationMirror}
