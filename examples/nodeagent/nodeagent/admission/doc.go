// SPDX-License-Identifier: Apache-2.0

// Package admission decides which pods a node takes on. It is pure: no lock, no
// clock, no I/O; the answer is a list that can be printed and compared.
//
//	node := &admission.Node{
//		Name:        "gw-17",
//		OS:          "linux",
//		Labels:      map[string]string{"site": "north"},
//		Allocatable: v1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("110")},
//	}
//	own := admission.DemandOf(pod)
//	failures := admission.Check(node, admitted, own)
//	if short, only := admission.Shortages(failures); only && admission.Critical(pod) {
//		victims, err := admission.Preempt(own, admitted, short)
//		…
//	}
//
// The caller
//  1. keeps the Demand of every pod that is active: admitted, and neither over nor
//     known to have stopped.
//  2. asks once per pod, in a fixed order, and never again for a pod that runs:
//     what is checked here is checked when a pod comes, not while it runs.
//  3. stops the victims of Preempt before the pod that wanted their place starts.
//  4. asks Resize when a pod that runs asks for other resources.
//
// # Differences from the kubelet (1.36)
//
//   - Every failure is reported, in the kubelet's order; the kubelet keeps the first.
//     Resources of one pod are in order of their names, not of a map.
//   - A resource out of cpu, memory, ephemeral-storage and pods that the node says
//     nothing of is not limited; for the kubelet there is none of it. A node that
//     says nothing at all limits nothing, hugepages included.
//   - A request that is missing beside a limit is the limit, as the API server
//     would have made it, so that sources that do not fill in defaults count, too.
//   - Who is to go for a critical pod is the kubelet's choice, but among pods that
//     free as much the one of lower priority goes, and then the order is fixed.
//   - A critical pod for which no room can be made keeps the reason of what is
//     missing (OutOfcpu); the kubelet says UnexpectedAdmissionError.
//   - A resize that no node of this size could take on is Infeasible again, as up
//     to 1.33, rather than Deferred for ever.
//   - Devices, NUMA topology, AppArmor and SupplementalGroupsPolicy are not looked
//     at: runtimes refuse what they cannot do.
package admission
