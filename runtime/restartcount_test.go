// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// An earlier agent requested an instance that appears beside the present agent's instance. The late instance
// is the newest record, never ran, and is no successor: an instance that runs goes on, and an instance that has
// ended is restarted by its own exit, with the next count, or not at all.
func TestALateInstanceIsNoSuccessor(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		exits  bool
		want   []runtime.State // of the instances that the agent made, by their counts
	}{
		{"runs", v1.RestartPolicyAlways, false, []runtime.State{runtime.StateRunning}},
		{"restarts", v1.RestartPolicyAlways, true, []runtime.State{runtime.StateExited, runtime.StateRunning}},
		{"has ended for good", v1.RestartPolicyNever, true, []runtime.State{runtime.StateExited}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := newPod(regular("c"), regular("d"))
				pod.Spec.RestartPolicy = c.policy
				status := n.mustSync(pod)
				time.Sleep(time.Second)
				ran := status.Latest("c")
				late, err := n.rt.CreateContainer(n.Context(), ran.Sandbox, runtime.ContainerSpec{Pod: pod, Name: "c", Hash: ran.Hash})
				require.NoError(n, err)
				if c.exits {
					require.NoError(n, n.world.Kill(pod.UID, "c", 1))
				}
				status = n.mustSync(pod)
				got := make([]runtime.State, len(c.want))
				for _, in := range status.Containers {
					if in.Name == "c" && in.ID != late {
						require.Less(n, int(in.RestartCount), len(got))
						got[in.RestartCount] = in.State
					}
				}
				require.Equal(n, c.want, got)
			})
		})
	}
}

// A record that was removed by a call with a lost reply is remembered, and the count continues.
func TestALostReplyToARemovalLosesNoCount(t *testing.T) {
	for name, of := range map[string]struct {
		spec podOption
		goes func(n *node, pod *v1.Pod) // makes the record of container i be removed next
	}{
		"for a new sandbox": {initial("i"), func(n *node, _ *v1.Pod) { n.world.Reboot() }},
		"that never ran": {regular("i"), func(n *node, pod *v1.Pod) {
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "i"}, Times: 1, Err: errors.New("no such program")})
			require.NoError(n, n.world.Kill(pod.UID, "i", 1))
			n.pass(time.Second)
			r := n.sync(pod)
			require.ErrorIs(n, r.Err(), runtime.ErrRunContainer)
			for _, c := range r.Status.Containers {
				if c.Name == "i" && c.State == runtime.StateExited {
					require.NoError(n, n.rt.RemoveContainer(n.Context(), c.ID))
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				pod := newPod(of.spec, regular("a"))
				if len(pod.Spec.InitContainers) > 0 {
					n.world.Script(fake.Target{Container: "i"}, fake.Exit(fake.AtOnce, 0))
				}
				n.mustSync(pod)
				of.goes(n, pod)
				n.pass(time.Minute) // whatever back-off there is
				n.inject(fake.Fault{On: fake.Target{Op: fake.OpRemoveContainer, Container: "i"}, Times: 1, DoneButReplyLost: true})
				require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrRemoveContainer)
				n.pass(time.Minute)
				status := n.mustSync(pod)
				require.EqualValues(n, 1, status.Latest("i").RestartCount)
			})
		})
	}
}
