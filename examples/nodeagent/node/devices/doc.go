// SPDX-License-Identifier: Apache-2.0

// Package devices gives the devices of device plug-ins (v1beta1) to containers. Package ledger
// chooses the devices, package checkpoint has the file that survives the agent, package deviceplugin
// speaks gRPC with the plug-ins, and package podresources shows the devices to other programs.
//
//	manager, err := devices.New(devices.Options{Dir: "/var/lib/kubelet/device-plugins"})
//	options.Features = func(h *feature.Host) []feature.Feature {
//		return []feature.Feature{manager.Feature(h)}
//	}
//	go manager.Follow(ctx, "example.com/gpu", plugin) // for each plug-in that registers
//
// # From admission to the end of a pod
//
//  1. Admission reserves devices for all containers of the pod and calls no plug-in. If the plug-in
//     of a known resource is away, the pod waits, see Options.Patience. If too few devices are
//     healthy and free, the pod is refused with the reason UnexpectedAdmissionError.
//  2. The pod's worker asks the plug-ins before the sandbox is made: for a preferred choice, then
//     for the allocation. The answers are on the disk before a container starts. A failed
//     allocation fails the pod with the same reason.
//  3. Each start of a container adds the answers to the spec and, if the plug-in asks for it, calls
//     PreStart.
//  4. The devices are free when no container of the pod runs.
//
// # Restarts
//
// After a restart of the agent the checkpoint has the devices of the pods. Containers keep running,
// and containers that restart get the same devices, also without the plug-in. After a restart of a
// plug-in the pods keep their devices as well. While the plug-in is away, no device of the resource is
// allocatable, and the status of containers has the health Unknown.
//
// # Differences from the kubelet (1.36)
//
//   - Admission calls no plug-in, so that a slow plug-in does not hold up the other pods. The pod's own
//     worker calls the plug-in and may wait for AllocateTimeout.
//   - A pod that is admitted while the plug-in of a known resource is away waits for the plug-in,
//     for Options.Patience at most (#125579, #133382). In the kubelet the pod is Failed.
//   - If only devices of an ending pod are left for a new pod, the new pod waits until they are
//     free.
//   - Devices are chosen in the order of their IDs instead of in random order.
//   - A failure of GetPreferredAllocation is logged, and the choice is made without the plug-in.
package devices
