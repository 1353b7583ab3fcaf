// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"context"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/runtime"
)

// idle is a runtime that reports a resize without doing it.
type idle struct{ *nodetest.Runtime }

func (idle) UpdateResources(context.Context, runtime.ContainerID, v1.ResourceRequirements) error {
	return nil
}

// everyFeature lists the features that schedules exercise.
var everyFeature = []nodetest.Feature{
	nodetest.FeatureDeadlines, nodetest.FeatureResizes, nodetest.FeatureAdmission, nodetest.FeatureMirrors, nodetest.FeatureImages,
}

// The schedules that use a feature fail for an agent without it. The feature that announces resizes is
// not among them: package podsync tells that a resize is in progress, and no schedule judges its events
// and errors.
func TestSchedulesNoticeThatAFeatureIsMissing(t *testing.T) {
	if casetest.Raced {
		t.Skip("judges schedules and not the agent; make rounds plays it")
	}
	for name, missing := range map[string]struct {
		feature nodetest.Feature
		agent   nodetest.Assemble
	}{
		"deadlines": {nodetest.FeatureDeadlines, withoutFeatures("deadline")},
		"admission": {nodetest.FeatureAdmission, withoutFeatures("gate")},
		"resizes": {nodetest.FeatureResizes, func(o node.Options) (nodetest.Assembly, error) {
			o.Runtime = idle{o.Runtime.(*nodetest.Runtime)}
			return nodetest.ReferenceAgent(o)
		}},
		"mirror pods": {nodetest.FeatureMirrors, withoutFeatures("mirrors")},
		"images":      {nodetest.FeatureImages, withoutFeatures("images")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := slices.DeleteFunc(slices.Clone(everyFeature), func(f nodetest.Feature) bool { return f == missing.feature })
			for seed := range uint64(100) {
				if r := play(t, missing.agent, nodetest.Schedule(seed, others...)); r.Err != nil {
					t.Logf("seed %d notices: %.200v", seed, r.Err)
					return
				}
			}
			t.Error("100 schedules pass")
		})
	}
}
