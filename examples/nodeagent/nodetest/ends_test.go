// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// A pod that a controller has failed on the API server, for example because the node was considered
// lost, is stopped.
func TestAPodThatWasFailedOnTheAPIServerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server})
		pod := host.Bind(nodetest.Pod("web", nodetest.Container("c")))
		time.Sleep(20 * time.Second)
		_, err := server.Change(pod.UID, func(p *v1.Pod) { p.Status.Phase, p.Status.Reason = v1.PodFailed, "NodeLost" })
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		host.Settle()
		require.Zero(t, running(host), "nothing runs on")
		require.Equal(t, v1.PodFailed, server.Get(pod.UID).Status.Phase)
	})
}

func running(n *nodetest.Node) int {
	count := 0
	for _, pod := range n.Agent.Pods() {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running != nil {
				count++
			}
		}
	}
	return count
}

// A deletion ends a pod in every state.
func TestPodsAreDeletedWhateverTheirState(t *testing.T) {
	never := nodetest.RestartPolicy(v1.RestartPolicyNever)
	claim := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	}
	for name, pod := range map[string]*v1.Pod{
		"rejected": nodetest.Pod("web", nodetest.Container("c"), claim),
		"over":     nodetest.Pod("job", nodetest.Container("over"), never),
		"running":  nodetest.Pod("web", nodetest.Container("c")),
	} {
		for when, do := range map[string]func(n *nodetest.Node, del func()){
			"alive": func(_ *nodetest.Node, del func()) { del() },
			"restarted": func(n *nodetest.Node, del func()) {
				n.RestartAgent()
				time.Sleep(5 * time.Second)
				del()
			},
			"down": func(n *nodetest.Node, del func()) {
				n.Shutdown()
				del()
				n.RestartAgent()
			},
			"down, nothing left": func(n *nodetest.Node, del func()) {
				n.Shutdown()
				n.World.Reboot()
				del()
				n.RestartAgent()
			},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := newServer(t)
					host := nodetest.New(t, nodetest.Options{API: server})
					host.World.Script(fake.Target{Container: "over"}, fake.Exit(time.Second, 0))
					bound := host.Bind(pod)
					time.Sleep(time.Minute)
					before := len(starts(host, "c")) + len(starts(host, "over"))
					do(host, func() {
						_, err := server.Delete(bound.UID)
						require.NoError(t, err)
					})
					time.Sleep(time.Minute)
					host.Settle()
					require.Nil(t, server.Get(bound.UID))
					require.Empty(t, host.Agent.Pods())
					require.Equal(t, before, len(starts(host, "c"))+len(starts(host, "over")))
				})
			})
		}
	}
}

// A pod that was bound and deleted while no agent ran never runs.
func TestAPodDeletedBeforeItRanIsJustGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server})
		host.Shutdown()
		pod := host.Bind(nodetest.Pod("web", nodetest.Container("c")))
		_, err := server.Delete(pod.UID)
		require.NoError(t, err)
		host.RestartAgent()
		time.Sleep(10 * time.Second)
		host.Settle()
		require.Empty(t, starts(host, "c"))
		require.Nil(t, server.Get(pod.UID))
		require.Empty(t, host.Agent.Pods())
	})
}

// An agent that cannot run a pod of its predecessor stops the pod first. Until then the object
// stays.
func TestAPodThatIsRefusedByANewAgentIsStoppedBeforeItIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		store, err := objects.NewStore(objects.Options{})
		require.NoError(t, err)
		store.SetConfigMap(&v1.ConfigMap{ObjectMeta: nodetest.Pod("cm").ObjectMeta})
		could := true
		host := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *node.Options) {
			if could {
				o.Objects = store
			}
		}})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: 20 * time.Second})
		pod := host.Bind(nodetest.Pod("web", nodetest.Container("c"), func(p *v1.Pod) {
			source := v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{ConfigMap: &source}}}
		}))
		time.Sleep(10 * time.Second)
		require.Len(t, starts(host, "c"), 1)
		host.Shutdown()
		_, err = server.Delete(pod.UID)
		require.NoError(t, err)
		could = false
		host.RestartAgent()
		time.Sleep(15 * time.Second)
		require.NotNil(t, server.Get(pod.UID), "its container still runs")
		time.Sleep(time.Minute)
		require.Nil(t, server.Get(pod.UID))
	})
}

// The end of the agent is no success of a job.
func TestAJobThatTheAgentsEndInterruptsHasNotSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		host := nodetest.New(t, nodetest.Options{API: server, Agent: func(o *node.Options) { o.OnShutdown = node.StopPods }})
		host.World.Script(fake.Target{Container: "c"}, fake.Script{TermAfter: time.Second})
		pod := host.Bind(nodetest.Pod("job", nodetest.Container("c"), nodetest.RestartPolicy(v1.RestartPolicyNever)))
		time.Sleep(10 * time.Second)
		host.Shutdown()
		require.Equal(t, v1.PodFailed, server.Get(pod.UID).Status.Phase)
		require.NotEmpty(t, server.Get(pod.UID).Status.Reason)
	})
}
