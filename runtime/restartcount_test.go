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

// An earlier agent requested an instance that appears after the present agent's instance runs. The
// late instance is the newest record and never ran. Its successor nevertheless counts from the
// instance that ran.
func TestANewerRecordThatNeverRanDoesNotHideARestart(t *testing.T) {
	inBubble(t, func(n *node) {
		pod := newPod()
		status := n.mustSync(pod)
		time.Sleep(time.Second)
		ran := status.Latest("c")
		require.Zero(n, ran.RestartCount)
		_, err := n.rt.CreateContainer(n.Context(), ran.Sandbox, runtime.ContainerSpec{Pod: pod, Name: "c", Hash: ran.Hash})
		require.NoError(n, err)
		status = n.mustSync(pod)
		require.Equal(n, runtime.StateRunning, status.Latest("c").State)
		require.NotEqual(n, ran.ID, status.Latest("c").ID)
		require.EqualValues(n, 1, status.Latest("c").RestartCount)
	})
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
