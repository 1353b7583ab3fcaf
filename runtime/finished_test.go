// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// neverAgain is a pod of a container that runs once and of one that keeps the pod alive.
func neverAgain() *v1.Pod {
	pod := newPod(regular("once", "server"))
	pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	return pod
}

// A container that is never restarted does not run twice because its records were removed,
// with nothing in the request but the pod.
func TestWhatHasRunForGoodDoesNotRunAgain(t *testing.T) {
	for name, ends := range map[string]fake.Script{"it has ended": fake.Exit(time.Second, 0), "it runs": {}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := neverAgain()
				n.world.Script(fake.Target{Container: "once"}, ends)
				n.mustSync(pod)
				n.pass(2 * time.Second)
				n.mustSync(pod)
				if ends.ExitAfter == 0 {
					require.NoError(n, n.world.Kill(pod.UID, "once", 1))
				}
				require.NoError(n, n.world.LoseRecords(pod.UID, "once"))
				n.mustSync(pod)
				require.Equal(n, 1, n.started("once"))

				n.world.Reboot()
				n.mustSync(pod)
				require.Equal(n, 1, n.started("once"), "in a new sandbox, either")
				require.Equal(n, 2, n.started("server"))
			})
		})
	}
}

// A new process uses the pod's status, if its source has the status.
func TestANewManagerGoesByThePodsStatus(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := neverAgain()
		pod.Status.ContainerStatuses = []v1.ContainerStatus{
			{Name: "once", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}},
			{Name: "server", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}},
		}
		n.mustSync(pod)
		require.Zero(n, n.started("once"))
		require.Equal(n, 1, n.started("server"), "which is restarted")
	})
}

// A UID that comes back after a kill is a new pod.
func TestAKilledPodThatComesBackRunsItsContainersAgain(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := neverAgain()
		n.mustSync(pod)
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
		require.NoError(n, n.world.LoseRecords(pod.UID, "once"))
		require.NoError(n, n.world.LoseRecords(pod.UID, "server"))
		n.mustSync(pod)
		require.Equal(n, 2, n.started("once"))
	})
}

// A container that runs once runs again in a restart of all containers.
func TestRestartAllRunsWhatHasRunForGood(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := neverAgain()
		pod.Spec.Containers = append(pod.Spec.Containers, restartsAll("watcher"))
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "server", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		n.world.Script(fake.Target{Container: "once"}, fake.Exit(time.Second, 0))
		n.world.Script(fake.Target{Container: "watcher"}, fake.Exit(5*time.Second, 42), fake.Script{})
		n.mustSync(pod)
		n.pass(2 * time.Second)
		status := n.mustSync(pod)
		ended := status.Latest("once")
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: "once", ContainerID: ended.ID.String(), State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: ended.ID.String()}},
		})
		n.pass(5 * time.Second)
		n.mustSync(pod)
		require.Equal(n, 2, n.started("once"))
		require.Equal(n, 2, n.started("watcher"))
	})
}

// Also if the record of its end is lost.
func TestRestartAllRunsWhatHasRunWithoutARecord(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := neverAgain()
		pod.Spec.Containers = append(pod.Spec.Containers, restartsAll("watcher"))
		n.world.Script(fake.Target{Container: "once"}, fake.Exit(time.Second, 0))
		n.world.Script(fake.Target{Container: "watcher"}, fake.Exit(5*time.Second, 42), fake.Script{})
		n.mustSync(pod)
		n.pass(2 * time.Second)
		n.mustSync(pod)
		require.NoError(n, n.world.LoseRecords(pod.UID, "once"))
		n.mustSync(pod)
		require.Equal(n, 1, n.started("once"))
		n.pass(5 * time.Second)
		n.mustSync(pod)
		require.Equal(n, 2, n.started("watcher"))
		require.Equal(n, 2, n.started("once"))
	})
}
