// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// reservedAnnotations are set only by the agent. A manifest with config.mirror would turn its pod
// into a mirror pod.
var reservedAnnotations = [...]string{
	podconfig.AnnotationHash, podconfig.AnnotationMirror, podconfig.AnnotationFirstSeen, podconfig.AnnotationSource,
}

// serverFields are metadata set by an API server, present in a manifest made from a dumped pod. A
// deletionTimestamp would kill the pod at once, and a constant resourceVersion would hide edits.
var serverFields = [...]string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink",
}

// dropForeign removes fields reserved for the agent and the server from a pod's tree, and returns a
// warning for each annotation.
func dropForeign(root any) (warnings []Problem) {
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
			warnings = append(warnings, Problem{Field: "metadata.annotations[" + key + "]", Text: "reserved annotation removed", isKey: true})
		}
	}
	if len(warnings) > 0 && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return warnings
}

// setStatic sets the properties of a static pod of this node, as in the kubelet. Unlike the
// kubelet, it does not validate the node's name as part of the pod: with a mixed-case node name,
// the kubelet rejects every static pod.
func setStatic(pod *v1.Pod, node types.NodeName, o Origin) {
	pod.Name = pod.Name + "-" + strings.ToLower(string(node))
	pod.GenerateName = ""
	pod.Namespace = cmp.Or(pod.Namespace, v1.NamespaceDefault)
	pod.Spec.NodeName = string(node)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if o.Kind == OriginFile {
		tolerateNoExecute(pod)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
}

// tolerateNoExecute adds a toleration so that no taint evicts the pod. A static pod ends only when its
// file is removed.
func tolerateNoExecute(pod *v1.Pod) {
	want := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for i, t := range pod.Spec.Tolerations {
		if t.Key == want.Key && t.Operator == want.Operator && t.Effect == want.Effect && t.Value == want.Value {
			pod.Spec.Tolerations[i] = want // tolerationSeconds would limit the toleration
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, want)
}
