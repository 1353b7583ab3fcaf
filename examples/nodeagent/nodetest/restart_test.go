// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A container whose image changes is restarted. A restart within a second causes no status in which the pod is not
// ready, as with the kubelet: upstream's [Conformance] spec "should run through the lifecycle of Pods and PodStatus"
// changes an image and expects the conditions Ready and ContainersReady to be True at once. A restart that takes longer
// causes one. containerd reports the stop and the start that the agent itself asked for, and so does the runtime here.
func TestReadinessDuringARestart(t *testing.T) {
	for name, c := range map[string]struct {
		slow  fake.Op
		takes time.Duration
		want  []v1.ConditionStatus // of Ready, from the edit on
	}{
		"slow to create":      {fake.OpCreateContainer, 900 * time.Millisecond, nil},
		"slow to start":       {fake.OpStartContainer, 900 * time.Millisecond, nil},
		"very slow to create": {fake.OpCreateContainer, 5 * time.Second, []v1.ConditionStatus{v1.ConditionFalse}},
		"very slow to start":  {fake.OpStartContainer, 5 * time.Second, []v1.ConditionStatus{v1.ConditionFalse}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world, err := fake.NewWorld(fake.WorldOptions{Echo: true})
				require.NoError(t, err)
				node := nodetest.New(t, nodetest.Options{Source: podconfig.SourceAPI, World: world})
				node.Apply(nodetest.Pod("web", nodetest.Container("c")))
				time.Sleep(time.Minute)
				_, err = world.Inject(fake.Fault{On: fake.Target{Op: c.slow}, Latency: c.takes})
				require.NoError(t, err)
				before := len(node.History().Statuses)
				node.Apply(nodetest.Pod("web", nodetest.Container("c"), func(p *v1.Pod) { p.Spec.Containers[0].Image = "another" }))
				time.Sleep(time.Minute)
				history := node.History()
				var ready []v1.ConditionStatus
				for _, s := range history.Statuses[before:] {
					ready = append(ready, condition(s.Status, v1.PodReady).Status)
				}
				assert.Equal(t, append(c.want, v1.ConditionTrue), ready, history.Journal())
				require.NoError(t, nodetest.Check(history))
				require.EqualValues(t, 1, node.Status("web").ContainerStatuses[0].RestartCount)
			})
		})
	}
}
