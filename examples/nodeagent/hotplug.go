// SPDX-License-Identifier: Apache-2.0

//go:build linux && !nohotplug

package main

import (
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/hotplug"
)

// hotplugFeatures returns the feature of pods whose devices are unplugged and plugged in again.
func hotplugFeatures(h *feature.Host) []feature.Feature {
	return []feature.Feature{hotplug.New(h, hotplug.Options{})}
}
