// SPDX-License-Identifier: Apache-2.0

// Package containerdtest starts a private containerd for tests: with its own
// folders, socket, images and pod network, and nothing left of it afterwards.
//
//	func TestPods(t *testing.T) {
//		containerd := containerdtest.Start(t, containerdtest.Options{})
//		backend, err := cri.Dial(t.Context(), containerd.Endpoint(), cri.Options{Root: t.TempDir()})
//		…
//		require.NoError(t, containerd.Restart(t.Context()))
//	}
//
// A start takes about a second, so that tests of one package better share one,
// through [Shared].
//
// It needs root, Linux, and on Debian the packages containerd, runc,
// containernetworking-plugins and busybox-static. The folder named by
// KEELSON_CONTAINERD_DIR, with containerd, containerd-shim-runc-v2 and ctr in
// it, goes before PATH: e2e/containerd.sh builds one with containerd 2. Where
// something is missing the test is skipped, or fails if
// KEELSON_REQUIRE_CONTAINERD=1.
//
// Every instance holds a slot: a locked file below /run that says where its
// folders are. Which slot it is decides the name of the bridge and the subnet,
// so that test processes side by side do not clash, and a slot whose process
// died without cleaning up is cleaned up by whoever starts the next instance.
//
// Outside its folders an instance uses, because containerd 1.6 offers no choice,
// /run/containerd/s for the sockets of its shims and /var/lib/cni/results for
// what libcni remembers of its network, and removes what is its own.
package containerdtest
