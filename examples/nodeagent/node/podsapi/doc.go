// SPDX-License-Identifier: Apache-2.0

// Package podsapi is a feature that serves the pods of a node to programs on the same machine: the
// gRPC service v1alpha1.Pods of k8s.io/kubelet (KEP-4188) on a Unix socket. Agents of monitoring,
// security and networking learn of pods, with their live statuses, without an API server.
//
//	node.Options{
//		Features: func(h *feature.Host) []feature.Feature {
//			pods, err := podsapi.New(h)
//			…
//			return []feature.Feature{pods}
//		},
//	}
//
// ListPods and GetPod answer with the newest version of a pod that a source delivered, and with the
// status that the node last computed. Mirror pods are left out. WatchPods sends ADDED for each pod,
// INITIAL_SYNC_COMPLETE, and then every change. Before every source has delivered its pods, all calls
// fail with the code Unavailable.
//
// The pods include the values of environment variables. The socket has mode 0600 in a folder of mode
// 0700: the node's own user and root can connect.
//
// # Files
//
//	podsapi.go  the feature: which pods changed
//	watch.go    the events of a client
//	socket.go   the socket, its clients and their limits
//
// # Goroutines
//
// Run of the feature owns the goroutines of the gRPC server. They have ended when Run returns.
//
// # Limits
//
// At most 64 connections are open, and further clients wait. All clients together may make 10 calls
// at once and 100 calls a second, and have 100 watches. Further calls fail with the code
// ResourceExhausted. If a client does not read an event for 30 s, the connection of the client is
// closed.
//
// # Differences from the kubelet (1.36)
//
//   - Changes of a pod that a client has not read yet are merged into its newest state, so a slow client
//     loses no pod. In the kubelet a watch ends after 100 unread events, and a full buffer loses an event
//     for all clients.
//   - An event never has an older state than the event before it, also for pods that change during the
//     first list.
//   - MODIFIED is sent only if the pod differs from the last event.
//   - DELETED is sent when the containers of a pod have stopped and the node has forgotten the pod.
//     Until then the pod is listed, although it has left its source.
package podsapi
