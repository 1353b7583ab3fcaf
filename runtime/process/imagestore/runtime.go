// SPDX-License-Identifier: Apache-2.0

package imagestore

import "github.com/keelson-dev/keelson/runtime/process"

// Runtime is a process backend with the ability runtime.Images. Store is also the backend's
// Options.Images.
type Runtime struct {
	*process.Runtime
	*Store
}
