// SPDX-License-Identifier: Apache-2.0

// Package localapi answers kubectl about the pods of a single node, without an API server: get,
// list, watch, describe, logs, exec, attach, port-forward, top, apply, delete and wait.
//
//	api, err := localapi.New(localapi.Options{NodeName: "gw-17", Pods: agent.Pods})
//	if err != nil {
//		return err
//	}
//	listener, err := localapi.Listen("/run/gw/node.sock", "gw")
//	if err != nil {
//		return err
//	}
//	go api.Run(ctx)
//	err = localapi.Serve(ctx, listener, localapi.Peers("gw", api)) // root, the own user and the group gw
//
// kubectl cannot dial a unix socket. Tokens authenticates kubectl on a TLS listener on loopback: an
// exec credential plug-in fetches the token through the socket.
//
// The caller's duties:
//
//  1. Authenticate. An API has none: a client of an API can run commands in every container. Wrap
//     the API in Peers or Tokens.Guard.
//  2. Run API.Run, and call API.Poke after the result of Options.Pods or Options.Node has changed. Watches
//     show nothing new without both.
//  3. For delete and restart of pods from sources: pass the sources through Restarts.Sources.
//
// Resources are pods, events, nodes and namespaces of v1, and the metrics of metrics.k8s.io. An
// ability whose option is nil is not in the discovery documents.
//
// The name of a static pod ends in the name of the node. With Options.Suffix the API shows and
// accepts such a pod by the name of its manifest.
//
// # Differences from an API server
//
//   - Apply and create write a manifest into a folder, see Folder. A changed pod is replaced, while
//     an API server forbids most changes. Manifests are always decoded strictly. Server-side apply
//     replaces the manifest and knows a single owner.
//   - The deletion of a pod whose manifest the API did not write restarts the pod. The answer comes after
//     the end of the pod, with a UID that no pod has: kubectl does not wait for the end of the new pod.
//   - The grace period of a deletion is that of the pod. Options of the deletion are ignored.
//   - Discovery documents are not aggregated, and OpenAPI documents have no schemas: kubectl explain
//     does not work.
//   - Lists are complete: limit is ignored.
package localapi
