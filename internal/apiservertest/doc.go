// SPDX-License-Identifier: Apache-2.0

// Package apiservertest starts a private kube-apiserver with its own etcd for tests: on loopback,
// with its own folder, certificate and token. Nothing is left behind afterwards.
//
//	func TestPods(t *testing.T) {
//		server := apiservertest.Start(t, apiservertest.Options{})
//		_, err := server.CreateNode(t.Context(), "n1")
//		…
//		patcher, err := statuspatch.New(statuspatch.Options{Config: server.NodeConfig("n1"), …})
//		…
//		require.NoError(t, server.Kill())             // clients see a crash
//		require.NoError(t, server.Compact(t.Context())) // and will get 410 Gone
//		require.NoError(t, server.Restart(t.Context())) // at the same URL
//	}
//
// A start takes about two seconds on an idle machine, so tests of one package should share one
// server, through [Shared].
//
// The folder named by KEELSON_APISERVER_DIR contains kube-apiserver, etcd and kubectl;
// e2e/kubernetes.sh builds such a folder. If the variable is not set or a program is missing, the
// test is skipped, or fails if KEELSON_REQUIRE_APISERVER=1. Neither root nor a network is needed.
//
// # What the server is
//
//   - All APIs of a kube-apiserver with its default flags, the Node and RBAC authorizers and the
//     NodeRestriction admission plugin. [Options.Flags] can change the flags.
//   - A client with [Server.Config] or [Server.Kubeconfig] has all permissions. A client with
//     [Server.NodeConfig] acts as one node, with the permissions of a kubelet.
//     [Server.WriteKubeconfig] writes such a Config to a file.
//   - Unless [Options.Controllers] is set, the server runs without scheduler and controllers. Pods
//     are created bound to a node (see [Pod]), no controller taints, evicts or collects objects, and
//     a deleted pod stays until its node deletes the pod, unless its grace period is zero. A deleted
//     namespace never goes away.
//   - The port stays reserved while the server is down, so that no other program can listen on the
//     port. Connections are refused until the server restarts.
//
// # What is left behind
//
// Nothing after [Server.Stop]. On Linux both servers die with the test process, even if the process
// is killed. The folder left by a killed process is removed by the next start of a server.
package apiservertest
