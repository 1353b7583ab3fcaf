// SPDX-License-Identifier: Apache-2.0

// Package services follows the Services of a cluster with client-go's reflector, for the
// environment variables of containers.
//
//	known, err := services.New(services.Options{
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
//  1. Call Run once. Until Run has read the Services, For waits.
//  2. Allow the client to list and watch Services of all namespaces, as the kubelet's role
//     system:node does. Without the permission the failure is logged once, and containers get no
//     variables.
//  3. Leave rest.Config.Timeout at 0, because a timeout would end every watch.
//
// # State
//
// Of a Service with a cluster IP, the name, namespace, cluster IP and ports are kept, about 300
// bytes. Other Services are not kept. As in the kubelet, a changed Service affects containers that
// start afterwards. While the API server is unreachable, For returns the last known Services, after
// a restart from Options.File. Requests are retried after 0.8 s, 1.6 s, and so on up to 30
// s, with a random factor between 1 and 2.
//
// # Goroutines
//
// Run uses the goroutines of the reflector, and returns after their end.
//
// # Differences from the kubelet (1.36)
//
//   - A pod of an API server waits up to ten seconds for the first list. Then its start fails. The
//     kubelet fails the start at once, and tries again with the next sync of the pod.
//   - If the API server is unreachable and File has Services, pods start with these. The kubelet
//     starts no pod.
//   - If the client may not list Services, pods start without variables. The kubelet starts no pod.
//   - A Service without ports has the variable of its host. The kubelet assumes at least one port.
package services
