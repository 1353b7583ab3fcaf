// SPDX-License-Identifier: Apache-2.0

// Package admission decides which pods a node admits. The package is pure: it uses no lock, no
// clock and no I/O. The result is a list of failures, to be printed or compared.
//
//	node := &admission.Node{
//		Name:        "gw-17",
//		OS:          "linux",
//		Labels:      map[string]string{"site": "north"},
//		Allocatable: v1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("110")},
//	}
//	own := admission.DemandOf(pod)
//	if failures := admission.Check(node, used, own); len(failures) > 0 {
//		victims, refused := admission.MakeRoom(node, own, failures, admitted)
//		…
//	}
//
// The caller
//  1. keeps the Demand of every active pod, and their sum as Usage. An admitted pod is active until
//     its phase is terminal or its containers have stopped.
//  2. calls Check once per pod, in a fixed order, and never again for a running pod.
//  3. stops the victims of MakeRoom before it starts the critical pod.
//  4. calls Resize when a running pod requests other resources.
//
// # Differences from the kubelet (1.36)
//
//   - Every failure is reported, in the kubelet's order. The kubelet reports only the first. The
//     resources of a pod are sorted by name instead of in map order.
//   - Cpu, memory, ephemeral-storage and pods are unlimited if Node.Allocatable does not list them.
//     For the kubelet their amount is zero. A nil Allocatable limits nothing, not even hugepages.
//   - A static pod that requests an extended resource, such as example.com/gpu, needs a node with
//     that resource (OutOfexample.com/gpu). The kubelet admits the pod and runs it without the
//     device. A pod of an API server is admitted as by the kubelet, because the scheduler may
//     account for the resource.
//   - If a container has a limit without a request, the limit counts as the request, as in the API
//     server's defaulting. So pods from sources without defaulting count correctly.
//   - MakeRoom chooses the same victims as the kubelet, with one exception: among pods that free
//     equal amounts, the pod of lower priority is chosen, and ties have a fixed order.
//   - If preemption cannot help, a critical pod keeps the reason of the missing resource
//     (OutOfcpu). The kubelet reports UnexpectedAdmissionError.
//   - A resize that exceeds the node's capacity is Infeasible, as in kubelets up to 1.33, instead
//     of Deferred.
//   - NUMA topology, AppArmor and SupplementalGroupsPolicy are not checked. A runtime
//     refuses pods that it cannot run, and package hostneeds those that need AppArmor.
package admission
