// SPDX-License-Identifier: Apache-2.0

// Package nodeidentity obtains the certificates of a node from an API server, and replaces them before
// they expire: the client certificate of the node agent, and the serving certificate of its server.
//
//	client, err := nodeidentity.NewClient(nodeidentity.ClientOptions{
//		Node:       "gateway-17",
//		Kubeconfig: "/etc/kubernetes/kubelet.conf",
//		Bootstrap:  "/etc/kubernetes/bootstrap-kubelet.conf",
//		Dir:        "/var/lib/kubelet/pki",
//	})
//	if err != nil {
//		return err
//	}
//	core, err := corev1.NewForConfig(client.Config()) // before there is a certificate, requests wait
//	…
//	return client.Run(ctx) // nil when ctx ends
//
// A Manager keeps one certificate. Its parts can be used alone:
//
//   - machine.go decides when to request a certificate: pure, without a clock.
//   - Store keeps the pair on the disk, in the kubelet's layout.
//   - Requester is the seam to the API server. NewRequester implements it on client-go.
//
// The states of a certificate:
//
//	None ──issued──> Valid ──70 to 90 % of its life, or other names wanted──> Due ──notAfter──> Expired
//	                   ^                                                       │                  │
//	                   └────────────────────────issued────────────────────────┴──────────────────┘
//
// A failed attempt does not change the state. The next attempt follows after a back-off of 2 s to
// 32 s, and after a refusal of up to 15 minutes.
//
// The caller's duties:
//
//  1. Run each Client and Manager in a goroutine.
//  2. Keep Template fast. Run calls it every ten seconds.
//
// Differences from the kubelet (1.36):
//
//   - A client certificate that has expired, or that the API server does not accept any more, is
//     replaced with the bootstrap credentials while the agent runs. The bootstrap kubeconfig is read
//     at each attempt, so that a new file needs no restart. The kubelet exits after five minutes.
//   - One certificate signing request is open at a time. It is kept on the disk: an attempt after
//     15 minutes, or after a restart, waits for the same request. The name of the object depends on
//     the request, so that a repeated creation makes no second object.
//   - A refused request is repeated with growing waits, of up to 15 minutes.
//   - An issued certificate is checked: key, subject, names, end. A certificate that cannot be stored
//     is used, and stored later.
//   - The two newest pairs stay on the disk. The kubelet keeps all.
//   - Before the first certificate, requests wait for it. The kubelet sends them without credentials.
package nodeidentity
