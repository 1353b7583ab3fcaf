// SPDX-License-Identifier: Apache-2.0

// Package nodestatus tells an API server that a node exists, what it has and
// that it is alive: the Node object, its status, and its lease in
// kube-node-lease.
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
// What a caller does:
//
//  1. gives Facts, which is called by one goroutine of Run, every ten seconds
//     and after Poke, and should not take longer than that;
//  2. calls Poke when something that others should know at once has changed;
//  3. keeps Run going while pods end, so that the node is not taken for dead.
//
// Run owns two goroutines: one writes the node, one renews the lease, so that a
// request that hangs in one does not hold up the other.
//
// Differences from the kubelet (1.36):
//
//   - A node that is deleted while its agent runs is made again. The kubelet logs
//     an error every ten seconds until it is restarted.
//   - Conditions and addresses of others on the same object are left alone, and
//     several addresses of one type survive a patch.
//   - A status is written when it has changed or is five minutes old, by one
//     patch without a read before it. The node is read once a minute, and after a
//     lease was not renewed in time: a controller may have taken it for dead.
//   - Memory, disk and PID pressure are told by the kubelet's default thresholds
//     and are held for five minutes, as there; no pod is evicted for them.
//   - volumesInUse is written by who mounts (nodeagent.Agent), as soon as it
//     changes, and not with the rest.
//   - No pod CIDR, no volume attach limits, no daemon endpoint: nothing here
//     serves the kubelet's API.
package nodestatus
