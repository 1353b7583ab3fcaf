// SPDX-License-Identifier: Apache-2.0

// Package podresources serves the kubelet's PodResources API (v1, and v1alpha1 for old clients): the
// devices of the running pods, for monitoring programs such as exporters of GPU metrics.
//
//	server, err := podresources.Listen("/var/lib/kubelet/pod-resources/kubelet.sock", podresources.Options{
//		Pods: activePods, Devices: manager,
//	})
//	go server.Serve(ctx)
//
// Package devices provides the devices. The node has no managers for processors, memory and dynamic
// resources, so these fields are empty.
//
// As in the kubelet (1.36), List returns the active pods, each with its sidecars and regular
// containers. Only root can open the socket. Clients may make ten calls at once and 100 calls a
// second; further calls fail with the code ResourceExhausted.
package podresources
