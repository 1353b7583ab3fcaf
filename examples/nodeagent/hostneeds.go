// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/hostneeds"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// hostNeeds returns the feature hostneeds, which refuses pods with needs that the host cannot meet.
// The process backend itself refuses AppArmor and Bidirectional mounts, and with --lenient runs
// containers without their profiles.
func hostNeeds(f flags) features {
	o := hostneeds.Options{Root: f.root}
	if f.endpoint != processEndpoint {
		o.AppArmor, o.Mounts = hostneeds.HasAppArmor, mount.None{}.List
	}
	if !f.lenient {
		o.Profiles = filepath.Join(f.root, "seccomp")
	}
	return func(*feature.Host) []feature.Feature { return []feature.Feature{hostneeds.New(o)} }
}
