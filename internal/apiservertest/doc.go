// SPDX-License-Identifier: Apache-2.0

// Package apiservertest starts a private kube-apiserver with its own etcd for
// tests: on loopback, with its own folder, certificate and token, and nothing
// left of it afterwards.
//
//	func TestPods(t *testing.T) {
//		server := apiservertest.Start(t, apiservertest.Options{})
//		_, err := server.CreateNode(t.Context(), "n1")
//		…
//		source, err := apiserver.New(apiserver.Options{Config: server.NodeConfig("n1"), …})
//		…
//		require.NoError(t, server.Kill())             // clients see a crash
//		require.NoError(t, server.Compact(t.Context())) // and will get 410 Gone
//		require.NoError(t, server.Restart(t.Context())) // at the same URL
//	}
//
// A start takes about two seconds where nobody else works, so that tests of one
// package better share one server, through [Shared].
//
// The folder named by KEELSON_APISERVER_DIR has kube-apiserver, etcd and kubectl in
// it; e2e/kubernetes.sh builds one. Where it is not set or something is missing the
// test is skipped, or fails if KEELSON_REQUIRE_APISERVER=1. Neither root nor a
// network is needed.
//
// # What the server is
//
//   - All APIs of a kube-apiserver with its default flags, the Node and RBAC
//     authorizers and the NodeRestriction admission plugin; [Options.Flags] can
//     change that.
//   - Who has [Server.Config] or [Server.Kubeconfig] may do everything. With
//     [Server.NodeConfig] a client is one node, and may do what a kubelet may;
//     [Server.WriteKubeconfig] makes a file of it.
//   - There is no scheduler, no controller and no kubelet: pods are created bound
//     to a node (see [Pod]), nobody taints, evicts or collects anything, and a
//     deleted pod stays until its node deletes it, unless its grace is zero. A
//     deleted namespace never goes away.
//   - Its port stays reserved while it is down, so that nobody else can answer
//     there: connections are refused until it is back.
//
// # What is left behind
//
// Nothing after [Server.Stop]. On Linux both servers die with the test process,
// even when that is killed; the folder it then leaves below the folder for
// temporary files is removed by whoever starts the next server.
package apiservertest
