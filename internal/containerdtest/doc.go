// SPDX-License-Identifier: Apache-2.0

// Package containerdtest starts a private containerd for tests: with its own folders, socket,
// images and pod network. Nothing is left behind afterwards.
//
//	func TestPods(t *testing.T) {
//		containerd := containerdtest.Start(t, containerdtest.Options{})
//		backend, err := cri.Dial(t.Context(), containerd.Endpoint(), cri.Options{Root: t.TempDir()})
//		…
//		require.NoError(t, containerd.Restart(t.Context()))
//	}
//
// A start takes about a second, so tests of one package should share one instance, through
// [Shared].
//
// The package needs root, Linux, and on Debian the packages containerd, runc,
// containernetworking-plugins and busybox-static. The folder named by KEELSON_CONTAINERD_DIR, with
// containerd, containerd-shim-runc-v2 and ctr, takes precedence over PATH: e2e/containerd.sh builds
// such a folder with containerd 2. Where something is missing the test is skipped, or fails if
// KEELSON_REQUIRE_CONTAINERD=1.
//
// Every instance holds a slot: a locked file below /run with the path of its folder. The number of
// the slot determines the bridge and the subnet, so concurrent test processes do not clash. If a
// process died without cleaning up, the next start cleans up its slot.
//
// Outside its folders an instance uses /run/containerd/s for the sockets of its shims and
// /var/lib/cni/results for libcni's records, because containerd 1.6 offers no choice. An instance
// removes its own files there.
package containerdtest
