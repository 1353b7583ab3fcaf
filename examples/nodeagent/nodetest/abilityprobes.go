// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Probes with unusual periods and thresholds. Zero is the API's default.

func probing() ability {
	return ability{fields: func(g *generator, _ string) (s string) {
		if g.chance(20) {
			s += fmt.Sprintf(" period=%d", pick(g, 0, 3, 15))
		}
		if g.chance(20) {
			s += fmt.Sprintf(" failures=%d", pick(g, 0, 1, 2, 4))
		}
		return s
	}}
}

func periodOf(probe *v1.Probe) time.Duration {
	return time.Duration(cmp.Or(probe.PeriodSeconds, 10)) * time.Second
}

func failuresOf(probe *v1.Probe) int32 { return cmp.Or(probe.FailureThreshold, 3) }
