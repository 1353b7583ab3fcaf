// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// reservedAnnotations are the agent's own. A manifest that held config.mirror would make its pod pass for a mirror pod.
var reservedAnnotations = [...]string{
	podconfig.AnnotationHash, podconfig.AnnotationMirror, podconfig.AnnotationFirstSeen, podconfig.AnnotationSource,
}

// serverFields is metadata about a pod's life on an API server, which a manifest made of a dumped pod may hold. A
// deletionTimestamp would have the pod killed at once, and a resourceVersion that never changes would hide edits.
var serverFields = [...]string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink",
}

// dropForeign removes from a pod's tree what is not its author's to say, and returns a warning for each annotation.
func dropForeign(root any) (warnings []string) {
	pod := lookup(root)
	delete(pod, "status")
	metadata := lookup(root, "metadata")
	for _, key := range serverFields {
		delete(metadata, key)
	}
	annotations := lookup(metadata, "annotations")
	for _, key := range reservedAnnotations {
		if _, ok := annotations[key]; ok {
			delete(annotations, key)
			warnings = append(warnings, fmt.Sprintf("reserved annotation %q removed", key))
		}
	}
	if len(warnings) > 0 && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return warnings
}

// setStatic sets what makes a pod a static pod of this node. As in the kubelet, except that the node's name is not
// validated as part of the pod: with a mixed-case one the kubelet refuses every static pod.
func setStatic(pod *v1.Pod, node types.NodeName, o Origin) {
	pod.Name = pod.Name + "-" + strings.ToLower(string(node))
	pod.GenerateName = ""
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	pod.Spec.NodeName = string(node)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if o.Kind == OriginFile {
		tolerateNoExecute(pod)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
}

// tolerateNoExecute makes sure that no taint evicts the pod: nothing but its file may remove it.
func tolerateNoExecute(pod *v1.Pod) {
	want := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for i, t := range pod.Spec.Tolerations {
		if t.Key == want.Key && t.Operator == want.Operator && t.Effect == want.Effect && t.Value == want.Value {
			pod.Spec.Tolerations[i] = want // its tolerationSeconds would limit it
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, want)
}
