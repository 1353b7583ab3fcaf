// SPDX-License-Identifier: Apache-2.0

// Package containermeta holds the labels, annotations and hash of containers and sandboxes. They
// equal the kubelet's, so that each agent can take over the containers of the other agent.
package containermeta

// Labels of every sandbox and container.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
)

// Annotations of every container. They suffice to stop a container of a pod with an unknown spec.
const (
	AnnotationHash                   = "io.kubernetes.container.hash"
	AnnotationRestartCount           = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationPolicy      = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPreStopHandler         = "io.kubernetes.container.preStopHandler"
	AnnotationPorts                  = "io.kubernetes.container.ports"
	AnnotationDeletionGrace          = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationTerminationGrace       = "io.kubernetes.pod.terminationGracePeriod"
)
