// SPDX-License-Identifier: Apache-2.0

// Package kubeclient is a client of an API server for the few kinds that a node reads and writes.
//
//	client, err := kubeclient.New(config)
//	pod, err := client.Pods("default").Get(ctx, "web", metav1.GetOptions{})
//
// The methods have the signatures of client-go's typed clients. The typed clients register the types
// of all API groups at the start of a program, and their code is a quarter of the node agent. The
// types of this package are registered at the first use.
package kubeclient
