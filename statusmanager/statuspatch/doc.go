// SPDX-License-Identifier: Apache-2.0

// Package statuspatch is a statusmanager.Patcher and Getter on client-go.
//
//	patcher, err := statuspatch.New(statuspatch.Options{Config: config}) // a *rest.Config
//	manager, err := statusmanager.New(statusmanager.Options{Patcher: patcher})
//
// Each request is made once. client-go's own retries are off, because they would sleep through a
// Retry-After in a worker needed by other pods. Errors of the server are returned as the API
// statuses of apimachinery. They include the header Retry-After, which client-go drops if the body
// is a Status. The Patcher shares the connection with other clients of the same rest.Config.
//
// # The caller's duties
//
//  1. Set QPS and Burst of the rest.Config to the capacity of the server: with the kubelet's 50 and
//     100, 250 pods wait for 3 s. A negative QPS sets no limit; the server's priority and fairness
//     then is the limit.
//  2. Leave rest.Config.Timeout at 0; the manager has its own timeout.
//  3. Give the agent get and delete on pods, and patch on pods/status. The Node authorizer grants
//     these permissions for the node's own pods.
//
// # Goroutines
//
// None, except those of the client's transport.
package statuspatch
