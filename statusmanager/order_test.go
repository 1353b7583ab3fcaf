// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// TestTerminalBeforeOthers: in a random order of events, no request of another class begins while an ended pod waits.
func TestTerminalBeforeOthers(t *testing.T) {
	for seed := range uint64(16) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 13))
			n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{Workers: 1 + rng.IntN(4)})
			began := time.Now()
			var pods []*v1.Pod
			for _, uid := range uids("p", 60) {
				pods = append(pods, n.server.Create(testPod(uid)))
			}
			ended := map[string]time.Duration{}
			for _, i := range rng.Perm(len(pods)) {
				pod := pods[i]
				if _, over := ended[pod.Name]; over {
					continue
				}
				n.set(pod, []v1.PodStatus{
					status(v1.PodPending, waiting("main", "x")), status(v1.PodRunning, running("main")), status(v1.PodRunning, ready("main")),
				}[rng.IntN(3)])
				if i%3 == 0 {
					time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
					other := pods[rng.IntN(len(pods))]
					if _, again := ended[other.Name]; !again {
						ended[other.Name] = time.Since(began)
						_, err := n.TerminatePod(other)
						require.NoError(t, err)
					}
				}
			}
			settle()
			settle()
			require.Zero(t, n.Stats().Unsynced)
			checkTerminalFirst(t, n.server.Journal(), ended)
		})
		if t.Failed() {
			return
		}
	}
}

// checkTerminalFirst checks for every request of another class that no ended pod was waiting.
func checkTerminalFirst(t *testing.T, journal statustest.Journal, ended map[string]time.Duration) {
	for _, e := range journal {
		if e.Phase == v1.PodFailed {
			continue
		}
		for pod, at := range ended {
			if at >= e.At {
				continue
			}
			from, until := at, time.Duration(-1) // the waiting time: after its own request in flight, until its end was sent
			for _, own := range journal {
				switch {
				case own.Pod.Name != pod:
				case own.Phase == v1.PodFailed:
					if until < 0 {
						until = own.At
					}
				case own.At < at:
					from = max(from, own.At+own.Took)
				}
			}
			assert.False(t, from < e.At && e.At < until, "%s went while %s waited since %s\n%s", e, pod, from, journal)
		}
	}
}

// TestOthersAreNotStarved: a stream of Ready flips leaves a share of the turns to the rest.
func TestOthersAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 10 * time.Millisecond}, statusmanager.Options{Workers: 1})
		flapping := make([]*v1.Pod, 5)
		for i, uid := range uids("flap", len(flapping)) {
			flapping[i] = n.server.Create(testPod(uid))
			n.set(flapping[i], status(v1.PodRunning, ready("main")))
		}
		time.Sleep(time.Second)
		for _, uid := range uids("p", 10) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodPending, waiting("main", "x")))
		}
		for round := range 300 {
			for _, pod := range flapping {
				_, err := n.SetContainerReadiness(pod.UID, "fake://main", round%2 == 1)
				require.NoError(t, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, uid := range uids("p", 10) {
			assert.NotEmpty(t, n.api(uid).ContainerStatuses, "%s waits for ever", uid)
		}
	})
}

// TestPriorityOfDeletion: a pod that is only still to be deleted goes before Ready flips.
func TestPriorityOfDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{Workers: 1})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodSucceeded, exited("main", 0)))
		_, err := n.TerminatePod(pod)
		require.NoError(t, err)
		time.Sleep(time.Second)
		for _, uid := range uids("p", 20) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, ready("main")))
		}
		_, err = n.server.Delete(types.UID("a"))
		require.NoError(t, err)
		time.Sleep(45 * time.Millisecond)
		assert.Nil(t, n.server.Get("a"), n.server.Journal())
	})
}
