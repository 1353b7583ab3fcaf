// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
)

func TestGracePeriod(t *testing.T) {
	tests := []struct {
		name                     string
		current                  int64
		spec, deletion, override *int64
		want                     int64
	}{
		{"spec decides when nothing else does", 0, seconds(30), nil, nil, 30},
		{"the API's default when the spec is silent", 0, nil, nil, nil, 30},
		{"deletion shortens the spec", 0, seconds(30), seconds(5), nil, 5},
		{"deletion may lengthen the spec", 0, seconds(30), seconds(600), nil, 600},
		{"override shortens the spec", 0, seconds(30), nil, seconds(2), 2},
		{"override may lengthen the spec", 0, seconds(30), nil, seconds(60), 60},
		{"the shorter of deletion and override", 0, seconds(30), seconds(5), seconds(2), 2},
		{"the shorter of override and deletion", 0, seconds(30), seconds(2), seconds(5), 2},
		{"deletion 0 means 1", 0, seconds(30), seconds(0), nil, 1},
		{"override 0 means 1", 0, seconds(30), nil, seconds(0), 1},
		{"a negative override means 1", 0, seconds(30), nil, seconds(-7), 1},
		{"spec 0 means 1", 0, seconds(0), nil, nil, 1},
		// The kubelet (1.36) takes the 0 for "unset" and gives 30.
		{"deletion 0 is not displaced by a longer override", 0, seconds(30), seconds(0), seconds(30), 1},
		{"a decided one ignores a shorter spec", 10, seconds(5), nil, nil, 10},
		{"a decided one does not grow", 10, seconds(30), seconds(20), seconds(15), 10},
		{"a decided one shrinks", 10, seconds(30), seconds(20), seconds(3), 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := testPod("a")
			pod.Spec.TerminationGracePeriodSeconds = test.spec
			pod.DeletionGracePeriodSeconds = test.deletion
			assert.Equal(t, test.want, gracePeriod(test.current, pod, test.override))
		})
	}
	assert.EqualValues(t, 1, gracePeriod(0, nil, nil), "an orphan")
	assert.EqualValues(t, 7, gracePeriod(0, nil, seconds(7)), "an orphan with an override")
}

// TestGracePeriodAgreesWithModel compares random histories with the definition: the minimum of every explicit value so
// far, or of nothing explicit the spec of the first request.
func TestGracePeriodAgreesWithModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() *int64 {
		if rng.IntN(2) == 0 {
			return nil
		}
		return seconds(rng.Int64N(40) - 2)
	}
	for history := range casetest.Rounds(20_000) {
		var current, decided int64
		for step := range 4 {
			pod := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: value()}}
			pod.DeletionGracePeriodSeconds = value()
			override := value()
			if decided == 0 {
				decided = 1 << 40
				if pod.DeletionGracePeriodSeconds == nil && override == nil {
					decided = 30
					if spec := pod.Spec.TerminationGracePeriodSeconds; spec != nil {
						decided = max(1, *spec)
					}
				}
			}
			for _, explicit := range []*int64{pod.DeletionGracePeriodSeconds, override} {
				if explicit != nil {
					decided = min(decided, max(1, *explicit))
				}
			}
			current = gracePeriod(current, pod, override)
			require.Equal(t, decided, current, "history %d, step %d", history, step)
		}
	}
}
