// SPDX-License-Identifier: Apache-2.0

// Package apiserver is a statusmanager.Patcher and Getter on client-go.
//
//	patcher, err := apiserver.New(apiserver.Options{Config: config}) // a *rest.Config
//	manager, err := statusmanager.New(statusmanager.Options{Patcher: patcher})
//
// Requests are made once: client-go's own repetitions, which would sleep through a Retry-After in the place of other
// pods, are off. Answers of the server come back as the API statuses of apimachinery that the manager judges by; the header
// Retry-After, which client-go drops where the body is a Status, is in them. The connection is shared with the other
// clients that are made of the same rest.Config.
//
// # The caller's duties
//
//  1. Set QPS and Burst of the rest.Config to what the server can take: the kubelet's 50 and 100 make 250 pods wait for
//     3 s. A negative QPS sets no limit; the server's priority and fairness then is the limit.
//  2. Leave rest.Config.Timeout at 0; the manager has its own.
//  3. Give the agent get and delete on pods, and patch on pods/status. With the Node authorizer it has them for its own.
//
// # Goroutines
//
// None beside those of the client's transport.
package apiserver
