// SPDX-License-Identifier: Apache-2.0

//go:build !linux || nohotplug

package main

import (
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/hotplug"
)

// hotplugFeatures refuses the annotation in a program built without hotplug.
func hotplugFeatures(*feature.Host) []feature.Feature {
	return []feature.Feature{{Name: "hotplug", Check: func(pod *v1.Pod) []string {
		if _, asked := pod.Annotations[hotplug.Annotation]; asked {
			return []string{"metadata.annotations[" + hotplug.Annotation + "] (this program is built without hotplug)"}
		}
		return nil
	}}}
}
