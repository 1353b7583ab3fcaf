// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
)

// isKubelet reports whether the program has been installed in place of the kubelet.
func isKubelet(program string) bool { return filepath.Base(program) == "kubelet" }

// versions returns the output of --version: the versions of this program, of the kubelet that the node
// reports, and of Go, and the platform. If the program's name is kubelet, the output is that of the
// kubelet, because kubeadm reads it.
func versions(program, kubelet string) string {
	if isKubelet(program) {
		return "Kubernetes " + kubelet
	}
	own := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		own = cmp.Or(build.Main.Version, own) // "(devel)" outside of version control
	}
	return fmt.Sprintf("keelson nodeagent %s, Kubernetes %s, %s %s/%s", own, kubelet, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
}
