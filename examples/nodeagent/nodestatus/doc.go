// SPDX-License-Identifier: Apache-2.0

// Package nodestatus registers a node with an API server and keeps it up to date: the Node object,
// its status, and its lease in kube-node-lease.
//
//	reporter, err := nodestatus.New(nodestatus.Options{
//		NodeName: "gateway-17",
//		Nodes:    core.Nodes(),                             // client-go's CoreV1Client
//		Leases:   coordination.Leases(v1.NamespaceNodeLease), // client-go's CoordinationV1Client
//		Facts:    func(ctx context.Context) nodestatus.Facts { … },
//		Labels:   map[string]string{"example.com/site": "north"},
//	})
//	if err != nil {
//		return err
//	}
//	return reporter.Run(ctx) // nil when ctx ends
//
// The caller's duties:
//
//  1. Provide Facts. A goroutine of Run calls it every Options.UpdateInterval and after Poke. A call
//     should take less than that.
//  2. Call Poke after a change that clients of the API server should see at once.
//  3. Keep Run running while pods are stopped, so that the node is not considered dead.
//
// Run owns two goroutines. The first writes the node and the second renews the lease, so that a
// hanging request of the first does not delay the second.
//
// Differences from the kubelet (1.36):
//
//   - A node that is deleted while its agent runs is created again. The kubelet logs an error every
//     ten seconds until a restart.
//   - Extended resources that an administrator writes to the capacity are kept, and become allocatable
//     within a minute; the kubelet sees them with its next status. Like the kubelet, a node without a
//     record of its devices sets them to 0 when it registers. The kubelet's record is made by the first
//     device plug-in, so that a kubelet without plug-ins does so at each start.
//   - Conditions set by other clients are kept. Addresses are replaced as a whole, so that several
//     addresses of the same type are possible.
//   - A status is written after a change, or when it is Options.ReportInterval old. A single patch is sent
//     without reading the node first. The node is read once a minute, and after a late renewal of
//     the lease, because a controller may have marked the node as dead.
//   - A change of the node's pressure is written at once after Poke, and not with the next look at
//     the Facts.
//   - volumesInUse is written by node.Agent immediately after a change, and not with the other
//     fields.
//   - No pod CIDR and no volume attach limits are reported.
//   - A field that the API server does not store, for want of a feature gate, is not sent again until
//     it changes or Options.ReportInterval has passed.
package nodestatus
