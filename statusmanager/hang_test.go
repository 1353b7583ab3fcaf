// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// serverLatency is how long a healthy request takes.
const serverLatency = 20 * time.Millisecond

// patience is how long a request may take before it is overdue.
const patience = statusmanager.RequestTimeout / 20

// crowd is a node with mostly hanging or slow requests.
type crowd struct {
	workers, known, fresh, hanging int
	// delay is the additional time of requests of a hanging pod.
	delay time.Duration
	// spread is the time over which the fresh and the hanging pods get their first status.
	spread time.Duration
	seed   uint64
}

// measured is how long the server did not have a new status of a healthy pod.
type measured struct {
	// known are the latencies of pods answered before the other pods came, fresh of pods that came together with the
	// hanging pods.
	known, fresh []time.Duration
}

func p99(took []time.Duration) time.Duration {
	took = slices.Sorted(slices.Values(took))
	return took[len(took)*99/100]
}

// measure plays a crowd: while the fresh and the hanging pods come, in random order, the known ones change all the time.
func (c crowd) measure(t *testing.T) (out measured) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: serverLatency, JournalLimit: -1}, statusmanager.Options{Workers: c.workers})
		var known []*v1.Pod
		for _, uid := range uids("known", c.known) {
			known = append(known, n.server.Create(testPod(uid)))
			n.set(known[len(known)-1], status(v1.PodRunning, running("main")))
			require.NoError(t, n.WaitSynced(t.Context(), known[len(known)-1].UID))
		}
		var arrivals sync.WaitGroup
		fresh := c.arrive(t, n, &arrivals)
		rng := rand.New(rand.NewPCG(c.seed, 2))
		for i := range 300 {
			pod, began := known[i%len(known)], time.Now()
			n.set(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			require.NoError(t, n.WaitSynced(t.Context(), pod.UID))
			out.known = append(out.known, time.Since(began))
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		}
		arrivals.Wait()
		out.fresh = *fresh
	})
	return out
}

// arrive lets the fresh and the hanging pods come. The result is complete once arrivals have ended.
func (c crowd) arrive(t *testing.T, n *node, arrivals *sync.WaitGroup) *[]time.Duration {
	rng := rand.New(rand.NewPCG(c.seed, 1))
	var mu sync.Mutex
	var took []time.Duration
	names := uids("p", c.fresh+c.hanging)
	for i, place := range rng.Perm(c.fresh + c.hanging) {
		pod := n.server.Create(testPod(names[i]))
		at := time.Duration(rng.Int64N(int64(c.spread) + 1))
		healthy := place < c.fresh
		if !healthy && c.delay > 0 {
			n.server.Poison(pod.Name, statustest.Hostility{Delay: func(statusmanager.Request, int) time.Duration { return c.delay }})
		}
		arrivals.Go(func() {
			time.Sleep(at)
			began := time.Now()
			n.set(pod, status(v1.PodRunning, running("main")))
			if !healthy {
				return
			}
			assert.NoError(t, n.WaitSynced(t.Context(), pod.UID))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
	return &took
}

// clean is the same node without hanging pods.
func (c crowd) clean() crowd {
	c.delay = 0
	return c
}

// bound is the maximum delay of a new pod by hanging requests. The first request of each pod occupies a worker for a
// twentieth of RequestTimeout. A fifth of the workers is for known pods and a quarter for troubled pods.
func (c crowd) bound() time.Duration {
	return time.Duration(c.hanging) * patience / time.Duration(c.workers-c.workers/5-max(1, c.workers/4))
}

// TestFirstContactsThatHang: 990 pods whose first requests hang come together with 10 healthy pods. A pod already
// answered by the server is not delayed. New healthy pods wait while requests without an answer occupy the workers: a
// twentieth of RequestTimeout each, not all of RequestTimeout.
func TestFirstContactsThatHang(t *testing.T) {
	c := crowd{workers: 10, known: 5, fresh: 10, hanging: 990, delay: statustest.Forever}
	clean, got := c.clean().measure(t), c.measure(t)
	t.Logf("known: p99 %s without, %s with; new: %s without, %s with", p99(clean.known), p99(got.known), p99(clean.fresh), p99(got.fresh))
	assert.LessOrEqual(t, p99(got.known), 2*p99(clean.known))
	assert.LessOrEqual(t, p99(got.fresh), p99(clean.fresh)+c.bound())
}

// TestRandomCrowdsThatHang: with any number of hanging or slow pods, at once or one after the other, and at least five
// workers, a pod already answered by the server is delayed by at most a twentieth of RequestTimeout. A new pod is
// delayed by at most the bound of TestFirstContactsThatHang.
func TestRandomCrowdsThatHang(t *testing.T) {
	for seed := range casetest.Rounds[uint64](20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := crowd{
			workers: 2 + rng.IntN(11), known: 1 + rng.IntN(5), fresh: 5 + rng.IntN(20), hanging: rng.IntN(400),
			delay: statustest.Forever, spread: time.Duration(rng.Int64N(int64(30 * time.Second))), seed: seed,
		}
		if rng.IntN(2) == 0 {
			c.delay = 500*time.Millisecond + time.Duration(rng.Int64N(int64(12*time.Second)))
		}
		clean, got := c.clean().measure(t), c.measure(t)
		if c.workers >= 5 {
			require.LessOrEqual(t, slices.Max(got.known), slices.Max(clean.known)+patience, "%+v", c)
		}
		require.LessOrEqual(t, slices.Max(got.fresh), slices.Max(clean.fresh)+c.bound(), "%+v", c)
	}
}

// TestSlowServerIsNotGivenUp: a server that takes 3 s for each request gets each status once, as long as not more pods are
// written at a time than troubled ones may be.
func TestSlowServerIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 3 * time.Second}, statusmanager.Options{})
		for _, uid := range uids("p", 5) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, running("main")))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Len(t, n.server.Journal(), 5)
		for _, e := range n.server.Journal() {
			assert.NoError(t, e.Err)
		}
	})
}

// TestEverySlowPodIsTold: 50 pods have requests that take 3 s. If a pod loses its worker, the next request succeeds,
// because it has all of RequestTimeout. The error of the first request names the waiting pods as the reason.
func TestEverySlowPodIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events requestLog
		n := newNode(t, statustest.Options{Latency: 3 * time.Second}, statusmanager.Options{OnRequest: events.add})
		var pods []*v1.Pod
		for _, uid := range uids("p", 50) {
			pods = append(pods, n.server.Create(testPod(uid)))
			n.set(pods[len(pods)-1], status(v1.PodRunning, running("main")))
		}
		time.Sleep(time.Minute)
		for _, pod := range pods {
			assert.Equal(t, v1.PodRunning, n.api(pod.UID).Phase)
		}
		assert.LessOrEqual(t, len(n.server.Journal()), 2*len(pods))
		given := 0
		for _, ev := range events.all() {
			if ev.Err != nil {
				given++
				assert.ErrorContains(t, ev.Err, "other pods need the worker of a request without an answer after 500ms")
				assert.ErrorIs(t, ev.Err, context.Canceled)
			}
		}
		assert.Positive(t, given)
	})
}
