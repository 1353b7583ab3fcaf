// SPDX-License-Identifier: Apache-2.0

// Package apiserver knows the Services of a cluster, for the variables that containers get of them, by client-go's reflector.
//
//	known, err := apiserver.NewServices(apiserver.ServicesOptions{
//		Client: clients.CoreV1().Services(""),
//		File:   "/var/lib/agent/services.json",
//		Logger: log,
//	})
//	...
//	go known.Run(ctx)
//	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{
//		LogRoot:  "/var/log/pods",
//		Services: known.For,
//	})
//
// # The caller's duties
//
//  1. Call Run once. Until it has read the Services, For waits.
//  2. Allow the client to list and watch Services of all namespaces, as the kubelet's role system:node does. A client that
//     may not is told of once, and containers get no variables.
//  3. Leave rest.Config.Timeout at 0: it would end every watch.
//
// # What is kept
//
// Of a Service its name, namespace, cluster IP and ports, some 300 bytes; of one without a cluster IP nothing. A Service that
// changes is seen by containers that start afterwards, as in the kubelet. When the API server is away, what was known of it
// last is given out, from ServicesOptions.File after a restart. The server is asked again after 0.8 s, then 1.6 s, and so on
// up to 30 s, each up to twice as long by chance.
//
// # Goroutines
//
// Run is the caller's; it has those of the reflector, and returns when they have ended.
//
// # Differences from the kubelet (1.36)
//
//   - A pod of an API server waits for the first list for up to ten seconds before its start counts as failed. The kubelet
//     fails the start at once, and tries again with the pod's next sync.
//   - Where the API server does not answer and File has what was known, pods start with that. The kubelet starts none.
//   - Where the client may not list Services, pods start without variables. The kubelet starts none.
//   - A Service without ports makes its host's variable. (The kubelet's code takes the first port without asking.)
package apiserver
