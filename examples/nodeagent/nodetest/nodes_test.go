// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestNodesOfOneServer: a pod runs only on its node, for chosen and for generated node names.
func TestNodesOfOneServer(t *testing.T) {
	named := func(name string) nodetest.Options {
		return nodetest.Options{Agent: func(o *node.Options) { o.NodeName = name }}
	}
	for name, opts := range map[string][2]nodetest.Options{
		"names of the harness":   {},
		"Options.NodeName":       {{NodeName: "a"}, {NodeName: "b"}},
		"one name is given":      {{}, {NodeName: "other"}},
		"named by Options.Agent": {named("a"), named("b")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, err := statustest.New(statustest.Options{})
				require.NoError(t, err)
				opts[0].API, opts[1].API = server, server
				one, two := nodetest.New(t, opts[0]), nodetest.New(t, opts[1])
				require.NotEqual(t, one.Name(), two.Name())
				first := one.Bind(nodetest.Pod("first", nodetest.Container("c")))
				pod := nodetest.Pod("second", nodetest.Container("c"))
				pod.Spec.NodeName = two.Name()
				second := server.Create(pod)
				time.Sleep(time.Minute)
				for _, c := range []struct {
					node *nodetest.Node
					pod  *v1.Pod
				}{{one, first}, {two, second}} {
					pods := c.node.Agent.Pods()
					require.Len(t, pods, 1)
					assert.Equal(t, c.pod.UID, pods[0].UID)
					assert.Equal(t, 1, c.node.World.Total("StartContainer"))
					assert.Equal(t, v1.PodRunning, server.Get(c.pod.UID).Status.Phase)
				}
				two.RestartAgent()
				server.Remove(first.UID)
				one.Evict(first.UID)
				time.Sleep(time.Minute)
				assert.Empty(t, one.Agent.Pods())
				assert.Len(t, two.Agent.Pods(), 1)
			})
		})
	}
}

func TestPlayReturnsTheJournal(t *testing.T) {
	script, err := nodetest.ParseScript("story", []byte("apply web\nsleep 1s\nexpect running web/c\n"))
	require.NoError(t, err)
	played := nodetest.Play(t, script)
	require.NoError(t, played.Err)
	assert.Contains(t, played.Journal, "StartContainer")
	assert.Contains(t, played.Journal, "> apply web")
}
