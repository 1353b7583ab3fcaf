// SPDX-License-Identifier: Apache-2.0

package nodestatus

import v1 "k8s.io/api/core/v1"

// pressures are the pressure conditions in the order of a new status.
var pressures = []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure}

// pressureWords holds the kubelet's reason and message of each condition, without and with pressure.
var pressureWords = map[v1.NodeConditionType][2]struct{ reason, message string }{
	v1.NodeMemoryPressure: {
		{"KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"},
	},
	v1.NodeDiskPressure: {
		{"KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"KubeletHasDiskPressure", "kubelet has disk pressure"},
	},
	v1.NodePIDPressure: {
		{"KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{"KubeletHasInsufficientPID", "kubelet has insufficient PID available"},
	},
}

func pressureCondition(kind v1.NodeConditionType, under bool) v1.NodeCondition {
	status, said := v1.ConditionFalse, pressureWords[kind][0]
	if under {
		status, said = v1.ConditionTrue, pressureWords[kind][1]
	}
	return v1.NodeCondition{Type: kind, Status: status, Reason: said.reason, Message: said.message}
}
