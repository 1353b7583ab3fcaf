// SPDX-License-Identifier: Apache-2.0

package podsync_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// withDeadline makes pods with an active deadline fail at the deadline.
func withDeadline(o *podsync.Options) {
	o.Hooks = []podsync.Hook{{}, {Deadline: func(pod *v1.Pod, status *v1.PodStatus) (d podsync.Deadline, ok bool) {
		if pod.Spec.ActiveDeadlineSeconds == nil || status.StartTime.IsZero() {
			return d, false
		}
		at := status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
		return podsync.Deadline{At: at, Reason: "Late", Message: "too late"}, true
	}}}
}

// expiring returns a pod with an active deadline.
func expiring(seconds int64) *v1.Pod {
	pod := newPod("job", v1.RestartPolicyNever)
	pod.Spec.ActiveDeadlineSeconds = &seconds
	return pod
}

func TestAPodFailsAtItsDeadline(t *testing.T) {
	play(t, withDeadline, func(n *node) {
		began := time.Now()
		assert.True(n, n.drive(expiring(90), time.Hour))
		assert.Equal(n, 90*time.Second, time.Since(began))
		assert.Equal(n, v1.PodFailed, n.status().Phase)
		assert.Equal(n, "Late", n.status().Reason)
		assert.Equal(n, "too late", n.status().Message)
	})
}

func TestAPodThatEndedBeforeItsDeadlineKeepsItsPhase(t *testing.T) {
	play(t, withDeadline, func(n *node) {
		n.world.Script(fake.Target{}, fake.Exit(30*time.Second, 0))
		pod := expiring(31)
		n.drive(pod, 10*time.Second)
		n.stop()
		time.Sleep(time.Minute) // the agent learns of the exit after the deadline
		n.start()
		assert.True(n, n.drive(pod, time.Hour))
		assert.Equal(n, v1.PodSucceeded, n.status().Phase)
	})
}

// A call that hangs is interrupted at the deadline, also at a deadline that was moved during the call.
func TestADeadlineInterruptsTheCall(t *testing.T) {
	for name, tt := range map[string]struct{ before, after int64 }{
		"kept":      {before: 20, after: 20},
		"shortened": {before: 3600, after: 20},
		"set":       {after: 20},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, withDeadline, func(n *node) {
				_, err := n.world.Inject(fake.Fault{On: fake.Target{Op: fake.OpCreateContainer}, HangUntilCtx: true})
				require.NoError(n, err)
				began := time.Now()
				before, after := expiring(tt.before), expiring(tt.after)
				if tt.before == 0 {
					before.Spec.ActiveDeadlineSeconds = nil
				}
				time.AfterFunc(10*time.Second, func() { n.pods.Revise(after) })
				over, again, err := n.pods.Sync(n.Context(), before)
				require.NoError(n, err)
				assert.False(n, over)
				assert.Equal(n, 20*time.Second, time.Since(began))
				assert.Equal(n, time.Now(), again)
				assert.True(n, n.drive(after, time.Second))
				assert.Equal(n, "Late", n.status().Reason)
			})
		})
	}
}
