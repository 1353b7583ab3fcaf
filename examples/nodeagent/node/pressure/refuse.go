// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
)

// Refusal returns the message for a new pod on a node with these conditions, or "" for a pod that
// may start. As in the kubelet (1.36), under memory pressure alone only pods without any cpu or memory request or
// limit are refused, unless they tolerate the taint of memory pressure. Under any other pressure all
// pods are refused. Critical pods always start.
func Refusal(pod *v1.Pod, conditions []v1.NodeConditionType) string {
	if len(conditions) == 0 || podfacts.IsCritical(pod) {
		return ""
	}
	if slices.Equal(conditions, []v1.NodeConditionType{v1.NodeMemoryPressure}) {
		taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
		if podresources.QOS(pod) != v1.PodQOSBestEffort || admission.Tolerates(pod, &taint) {
			return ""
		}
	}
	names := make([]string, len(conditions))
	for i, c := range conditions {
		names[i] = string(c)
	}
	return fmt.Sprintf("The node had condition: [%s]. ", strings.Join(names, " "))
}
