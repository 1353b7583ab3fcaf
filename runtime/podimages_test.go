// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// imageEvents are the events about images, and how often each was told.
func (n *node) imageEvents() map[string]int {
	out := map[string]int{}
	n.events.mu.Lock()
	defer n.events.mu.Unlock()
	for _, line := range n.events.lines {
		for _, reason := range []string{runtime.EventPulling, runtime.EventPulled, runtime.EventFailed, runtime.EventBackOff, runtime.EventInspectFailed} {
			if line == fmt.Sprintf("Normal %s spec.containers{a}", reason) || line == fmt.Sprintf("Warning %s spec.containers{a}", reason) {
				out[reason]++
			}
		}
	}
	return out
}

// An image that failed while the sandbox was made is not tried again at once (the events Failed have
// the error and the reason), and a pulled image is
// not pulled again.
func TestOneAttemptIsOnePull(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  v1.PullPolicy
		here    bool
		sandbox time.Duration
		fail    error
		pulls   int
		events  map[string]int
	}{
		"fails before the sandbox is there":     {v1.PullIfNotPresent, false, 2 * time.Second, errors.New("401"), 1, map[string]int{"Pulling": 1, "Failed": 2}},
		"fails after the sandbox is there":      {v1.PullIfNotPresent, false, time.Millisecond, errors.New("401"), 1, map[string]int{"Pulling": 1, "Failed": 2}},
		"succeeds before the sandbox is there":  {v1.PullIfNotPresent, false, 2 * time.Second, nil, 1, map[string]int{"Pulling": 1, "Pulled": 1}},
		"succeeds after the sandbox is there":   {v1.PullIfNotPresent, false, time.Millisecond, nil, 1, map[string]int{"Pulling": 1, "Pulled": 1}},
		"is here":                               {v1.PullIfNotPresent, true, 2 * time.Second, nil, 0, map[string]int{"Pulled": 1}},
		"Always, and fails before":              {v1.PullAlways, true, 2 * time.Second, errors.New("401"), 1, map[string]int{"Pulling": 1, "Failed": 2}},
		"Always, and succeeds before":           {v1.PullAlways, false, 2 * time.Second, nil, 1, map[string]int{"Pulling": 1, "Pulled": 1}},
		"Always, is here, and succeeds after":   {v1.PullAlways, true, time.Millisecond, nil, 1, map[string]int{"Pulling": 1, "Pulled": 1}},
		"without a policy, and succeeds before": {"", false, 2 * time.Second, nil, 1, map[string]int{"Pulling": 1, "Pulled": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(n *node) {
				r := n.withImages(runtime.Options{})
				n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Latency: tc.sandbox})
				r.failWith, r.here["img-a:latest"] = []error{tc.fail}, tc.here
				pod := newPod(regular("a"))
				pod.Spec.Containers[0].ImagePullPolicy = tc.policy
				began := time.Now()
				err := n.sync(pod).Err()
				require.Equal(n, tc.fail != nil, errors.Is(err, runtime.ErrImagePull), err)
				require.Len(n, r.pulls, tc.pulls)
				require.Equal(n, tc.events, n.imageEvents())
				if tc.fail == nil {
					require.Equal(n, []string{"sha256:img-a:latest"}, r.started)
				}
				if tc.pulls > 0 {
					require.Equal(n, max(tc.sandbox, time.Second), time.Since(began), "at the same time")
				}
			})
		})
	}
}

// Containers of a pod with the same image share a failure.
func TestContainersShareAnAttempt(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		pod := newPod(regular("a", "b", "c"))
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Image = "same"
		}
		r.failWith = []error{errors.New("401"), nil}
		result := n.sync(pod)
		require.Len(n, r.pulls, 1)
		require.Len(n, result.Steps, 4)
		for _, s := range result.Steps[1:] {
			require.ErrorIs(n, s.Err, runtime.ErrImagePull)
		}
		for _, c := range []string{"a", "b", "c"} {
			require.Contains(n, n.events.lines, "Warning Failed spec.containers{"+c+"}")
		}
		at, _ := n.sync(pod).RetryAt()
		require.Equal(n, 10*time.Second, time.Until(at), "the delay of one failure, not of three")
		time.Sleep(time.Until(at))
		require.NoError(n, n.sync(pod).Err())
		require.Len(n, r.pulls, 2)
		for _, c := range []string{"a", "b", "c"} {
			require.Contains(n, n.events.lines, "Normal Pulled spec.containers{"+c+"}")
		}
	})
}

// The failure of a sandbox ends the pull for it, which does not count as a failure of the image.
func TestPullEndsWithItsSandbox(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpRunSandbox}, Latency: time.Second / 2, Err: errors.New("no network"), Times: 1})
		pod := newPod(regular("a"))
		began := time.Now()
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrCreatePodSandbox)
		require.Equal(n, time.Second/2, time.Since(began))
		require.Equal(n, 1, r.abandoned)
		require.NoError(n, n.sync(pod).Err(), "no back-off")
	})
}

func TestPullBackoffDoublesAndBeginsAfresh(t *testing.T) {
	inBubble(t, func(n *node) {
		r := n.withImages(runtime.Options{})
		pod := newPod(regular("a"))
		fails := func() int {
			r.failWith = []error{errors.New("401")}
			require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrImagePull)
			at, _ := n.sync(pod).RetryAt()
			defer func() { time.Sleep(time.Until(at)) }()
			return int(time.Until(at).Seconds())
		}
		require.Equal(n, []int{10, 20, 40, 80, 160, 300, 300}, []int{fails(), fails(), fails(), fails(), fails(), fails(), fails()})
		time.Sleep(10 * time.Minute)
		require.Equal(n, 10, fails(), "afresh")
		r.failWith = []error{errors.New("401")}
		require.ErrorIs(n, n.sync(pod).Err(), runtime.ErrImagePull)
		require.NoError(n, n.manager.KillPod(n.Context(), runtime.KillRequest{Pod: pod}).Err())
		require.NoError(n, n.manager.RemovePod(n.Context(), pod.UID))
		require.NoError(n, n.sync(pod).Err(), "another pod with the same UID")
	})
}
