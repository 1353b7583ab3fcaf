// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// TestAGateOfAnotherClientMakesAPodReady: another client sets and clears the condition of a readiness gate. The API
// server's status and the agent's follow within a second, with every assembly.
func TestAGateOfAnotherClientMakesAPodReady(t *testing.T) {
	for name, assemble := range map[string]nodetest.Assemble{
		"reference":   nodetest.ReferenceAgent,
		"featureless": withoutFeatures("declared", "deadline", "images", "resize", "gate", "restart-memory", "mirrors"),
		"parts":       newPartsAgent,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t)
				store, err := objects.NewStore(objects.Options{})
				require.NoError(t, err)
				node := nodetest.New(t, nodetest.Options{API: server, Assemble: assemble, Agent: func(o *node.Options) { o.Objects = store }})
				const gate = "example.com/traffic"
				pod := node.Bind(nodetest.Pod("web", nodetest.Container("c"), func(p *v1.Pod) {
					p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: gate}}
				}))
				time.Sleep(time.Minute)
				require.Equal(t, v1.ConditionFalse, condition(server.Get(pod.UID).Status, v1.PodReady).Status)
				for _, want := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionTrue} {
					_, err := server.PatchStatus(t.Context(), statusmanager.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
						fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"conditions":[{"type":%q,"status":%q}]}}`, pod.UID, gate, want))
					require.NoError(t, err)
					time.Sleep(time.Second)
					assert.Equal(t, want, condition(server.Get(pod.UID).Status, v1.PodReady).Status, "on the API server")
					assert.Equal(t, want, condition(node.Status("web"), v1.PodReady).Status, "of the agent")
					assert.Equal(t, want, condition(node.Last(pod.UID), v1.PodReady).Status, "published")
					time.Sleep(time.Minute)
				}
			})
		})
	}
}
