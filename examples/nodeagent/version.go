// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"strings"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
)

// version is what --version says: this program's, that of the Kubernetes API it
// speaks, and what it was built with and for.
func version() string {
	own := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		own = cmp.Or(build.Main.Version, own) // "(devel)" outside of version control
	}
	api, _, _ := strings.Cut(host.Version(), "+")
	return fmt.Sprintf("keelson nodeagent %s, Kubernetes API %s, %s %s/%s", own, api, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
}
