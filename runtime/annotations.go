// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// podIdentity returns the labels that sandboxes and containers share.
func podIdentity(pod *v1.Pod) map[string]string {
	return map[string]string{
		containermeta.LabelPodName:      pod.Name,
		containermeta.LabelPodNamespace: pod.Namespace,
		containermeta.LabelPodUID:       string(pod.UID),
	}
}

// containerLabels returns the labels that identify a container.
func containerLabels(pod *v1.Pod, c *v1.Container) map[string]string {
	labels := podIdentity(pod)
	labels[containermeta.LabelContainerName] = c.Name
	return labels
}

// containerAnnotations returns the annotations for restorePod and the back-off. Errors begin with
// the path of the field below the container.
func containerAnnotations(pod *v1.Pod, c *v1.Container, in ContainerInput) (map[string]string, error) {
	out := map[string]string{
		containermeta.AnnotationHash:                   in.Hash,
		containermeta.AnnotationRestartCount:           strconv.FormatInt(int64(in.RestartCount), 10),
		containermeta.AnnotationTerminationMessagePath: c.TerminationMessagePath,
		containermeta.AnnotationTerminationPolicy:      string(c.TerminationMessagePolicy),
		annotationRestartDelay:                         in.RestartDelay.String(),
	}
	if n := pod.DeletionGracePeriodSeconds; n != nil {
		out[containermeta.AnnotationDeletionGrace] = strconv.FormatInt(*n, 10)
	}
	if n := pod.Spec.TerminationGracePeriodSeconds; n != nil {
		out[containermeta.AnnotationTerminationGrace] = strconv.FormatInt(*n, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		text, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("lifecycle.preStop: %w", err)
		}
		out[containermeta.AnnotationPreStopHandler] = string(text)
	}
	if len(c.Ports) > 0 {
		text, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, fmt.Errorf("ports: %w", err)
		}
		out[containermeta.AnnotationPorts] = string(text)
	}
	return out, nil
}

// restorePod rebuilds the pod of container c from the annotations of c, for a container whose pod
// spec is lost. The result has the fields needed to kill the container: the names, both grace
// periods, the preStop hook, the ports, and the path of the termination message. The sandbox tells
// whether the pod is on the host's network.
//
// Missing or invalid values become zero values, so that a damaged record never prevents a kill. The
// container is the only container of the pod, and the second result points to it. The caller owns
// both.
func restorePod(st *PodStatus, c *ContainerStatus) (*v1.Pod, *v1.Container) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID:                        st.UID,
			Namespace:                  st.Namespace,
			Name:                       st.Name,
			DeletionGracePeriodSeconds: readSeconds(c.Annotations[containermeta.AnnotationDeletionGrace]),
		},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: readSeconds(c.Annotations[containermeta.AnnotationTerminationGrace]),
			Containers: []v1.Container{{
				Name:                     c.Name,
				TerminationMessagePath:   c.Annotations[containermeta.AnnotationTerminationMessagePath],
				TerminationMessagePolicy: v1.TerminationMessagePolicy(c.Annotations[containermeta.AnnotationTerminationPolicy]),
			}},
		},
	}
	if sandbox := st.sandboxOf(c); sandbox != nil {
		pod.Spec.HostNetwork = sandbox.HostNetwork
	}
	container := &pod.Spec.Containers[0]
	var preStop *v1.LifecycleHandler
	if json.Unmarshal([]byte(c.Annotations[containermeta.AnnotationPreStopHandler]), &preStop) == nil && preStop != nil {
		container.Lifecycle = &v1.Lifecycle{PreStop: preStop}
	}
	var ports []v1.ContainerPort
	if json.Unmarshal([]byte(c.Annotations[containermeta.AnnotationPorts]), &ports) == nil {
		container.Ports = ports
	}
	return pod, container
}

// readSeconds returns nil for an invalid number of seconds.
func readSeconds(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}
