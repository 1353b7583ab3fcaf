// SPDX-License-Identifier: Apache-2.0

// Package natsbus connects a node agent to NATS with JetStream: pods, ConfigMaps and Secrets from a
// key-value bucket, and statuses of pods into another bucket. It is a worked example. For another message
// bus, keep its structure and replace the calls of nats.go.
//
//	bus, err := natsbus.New(natsbus.Options{Node: "gateway-17", Desired: desired, Statuses: statuses, Pods: pods, Store: store, …})
//	agent, err := node.New(node.Options{Sources: []podconfig.Source{bus}, Objects: store, Status: bus.Reports().Set, …})
//	go bus.Reports().Run(ctx)
//
// # Keys
//
//	pods.NODE.NAMESPACE.NAME            in Desired: the manifest of a Pod, as YAML or JSON
//	configmaps.NODE.NAMESPACE.NAME      in Desired: a ConfigMap
//	secrets.NODE.NAMESPACE.NAME         in Desired: a Secret
//	pods.NODE.NAMESPACE.NAME            in Statuses: {"uid": …, "status": …}; removed with the pod; a status that
//	                                    the bucket has lost is sent again within 30 s
//
// A dot in NODE or NAME is written as "/". So the rights of a node are three patterns to read, for example
// $KV.desired.pods.gateway-17.>, and one to read and write, $KV.statuses.pods.gateway-17.>.
//
// # Behaviour
//
//   - The objects of the bucket are in the store before its pods are submitted, so that pods find their
//     ConfigMaps.
//   - An invalid value changes nothing: the last valid pod or object of the key stays. Options.Problem
//     receives the error once, and nil when the key is valid again or removed.
//   - The source lists the bucket anew after each reconnection, because a server that was restored from
//     an older copy tells no client about the lost changes. An earlier revision of a key, or the same
//     content again, changes nothing.
//   - Without the server, pods run on. If a bucket does not exist, Run of the source fails, the node runs
//     it again (podconfig.Retry), and pods run on, too. An empty bucket means that no pod should run.
//   - With Options.Cache and node.Options.Checkpoint, the node boots without the server. The cache has
//     Secrets in clear text, in a file with mode 0600.
package natsbus
