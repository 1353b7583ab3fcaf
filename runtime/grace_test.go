// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
)

func TestGracePeriod(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	probe := func(n int64) *v1.Probe { return &v1.Probe{TerminationGracePeriodSeconds: &n} }
	for name, tc := range map[string]struct {
		deletion, spec *int64
		container      v1.Container
		reason         KillReason
		want           time.Duration
	}{
		"nothing is known":                    {want: 2 * time.Second},
		"the spec's":                          {spec: seconds(30), want: 30 * time.Second},
		"a deletion's before the spec's":      {deletion: seconds(5), spec: seconds(30), want: 5 * time.Second},
		"one second is honoured":              {spec: seconds(1), want: time.Second},
		"zero is the least there is":          {spec: seconds(0), want: time.Second},
		"a liveness probe's own, also longer": {spec: seconds(30), container: v1.Container{LivenessProbe: probe(60)}, reason: killLivenessProbe, want: time.Minute},
		"a startup probe's own":               {spec: seconds(30), container: v1.Container{StartupProbe: probe(3)}, reason: killStartupProbe, want: 3 * time.Second},
		"not for another reason":              {spec: seconds(30), container: v1.Container{LivenessProbe: probe(60)}, reason: killSpecChanged, want: 30 * time.Second},
		"not once the pod is deleted":         {deletion: seconds(5), spec: seconds(30), container: v1.Container{LivenessProbe: probe(60)}, reason: killLivenessProbe, want: 5 * time.Second},
		"no overflow":                         {spec: seconds(1 << 62), want: 100 * 365 * 24 * time.Hour},
		"negative":                            {spec: seconds(-5), want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{}
			pod.DeletionGracePeriodSeconds = tc.deletion
			pod.Spec.TerminationGracePeriodSeconds = tc.spec
			assert.Equal(t, tc.want, gracePeriod(pod, &tc.container, tc.reason))
		})
	}
}
