// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/keelson-dev/keelson/examples/nodeagent/node/feature"

// features constructs features for node.Options. Nil constructs none.
type features func(*feature.Host) []feature.Feature

// joinFeatures returns the features of all constructors, in this order.
func joinFeatures(constructors ...features) features {
	return func(h *feature.Host) (all []feature.Feature) {
		for _, construct := range constructors {
			if construct != nil {
				all = append(all, construct(h)...)
			}
		}
		return all
	}
}
