// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
)

// witness has the pods that the configuration has shared, each with a copy as of then.
type witness struct{ pods []seenPod }

type seenPod struct{ shared, copy *v1.Pod }

func (w *witness) see(u podconfig.Update) {
	for _, pod := range u.Pods {
		w.pods = append(w.pods, seenPod{pod, pod.DeepCopy()})
	}
}

// TestNothingWritesToSharedPods plays random schedules. The configuration shares its pods with all
// parts of the agent (podconfig.StoreOptions.Shared), so that no part may write to a pod. TestMatrix
// judges what the agent does.
func TestNothingWritesToSharedPods(t *testing.T) {
	for seed := range casetest.Rounds[uint64](30) {
		w := &witness{}
		play(t, func(o node.Options) (nodetest.Assembly, error) {
			addFeatures(&o, func(*feature.Host) []feature.Feature {
				return []feature.Feature{{Name: "witness", ConfigUpdated: w.see}}
			})
			return nodetest.ReferenceAgent(o)
		}, nodetest.Schedule(seed))
		require.NotEmpty(t, w.pods)
		for _, seen := range w.pods {
			assert.Equal(t, seen.copy, seen.shared, "seed %d: a part has written to a pod of the configuration", seed)
		}
	}
}
