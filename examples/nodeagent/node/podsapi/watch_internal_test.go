// SPDX-License-Identifier: Apache-2.0

package podsapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/dirty"
	"github.com/keelson-dev/keelson/podconfig"
)

// host stands for the node: statuses by UID, and the pods that it forgot.
type host struct {
	*server
	mu       sync.Mutex
	statuses map[types.UID]v1.PodStatus
}

func newHost() *host {
	h := &host{server: newServer(feature.NewTable(), zap.NewNop()), statuses: map[types.UID]v1.PodStatus{}}
	h.sourced = func() bool { return true }
	h.status = func(pod *v1.Pod) v1.PodStatus {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.statuses[pod.UID]
	}
	return h
}

func podOf(uid, label string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p" + uid, UID: types.UID(uid), Labels: map[string]string{"l": label}}}
}

func (h *host) set(uid, label string) {
	h.updated(podconfig.Update{Op: podconfig.OpUpdate, Pods: []*v1.Pod{podOf(uid, label)}})
}

func (h *host) publish(uid types.UID, message string) {
	h.mu.Lock()
	h.statuses[uid] = v1.PodStatus{Message: message}
	h.mu.Unlock()
	h.mark(uid)
}

func (h *host) drop(uid types.UID) { h.forget(func(known types.UID) bool { return known != uid }) }

// line returns an event as text.
func line(t assert.TestingT, e *api.WatchPodsEvent) string {
	if e.Pod == nil {
		return e.Type.String()
	}
	var pod v1.Pod
	assert.NoError(t, pod.Unmarshal(e.Pod))
	return fmt.Sprintf("%s %s/%s %s %s %s", e.Type, pod.Namespace, pod.Name, pod.UID, pod.Labels["l"], pod.Status.Message)
}

func TestEventsOfAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.set("2", "a")
		h.set("1", "a")
		mirror := podOf("3", "a")
		mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		h.updated(podconfig.Update{Op: podconfig.OpAdd, Pods: []*v1.Pod{mirror}})
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan string)
		var wg sync.WaitGroup
		wg.Go(func() {
			err := h.watch(ctx, func(e *api.WatchPodsEvent) error {
				events <- line(t, e)
				return nil
			})
			assert.Equal(t, codes.Canceled, status.Code(err))
		})
		next := func() string {
			select {
			case e := <-events:
				return e
			case <-time.After(time.Second):
				return "nothing"
			}
		}
		synctest.Wait() // the first event is being sent
		h.set("2", "late")
		h.publish("1", "runs")
		assert.Equal(t, "ADDED ns/p1 1 a ", next())
		assert.Equal(t, "ADDED ns/p2 2 late ", next())
		assert.Equal(t, "INITIAL_SYNC_COMPLETE", next())
		assert.Equal(t, "MODIFIED ns/p1 1 a runs", next())
		assert.Equal(t, "nothing", next(), "p2 did not change after its event")
		h.publish("1", "runs")
		assert.Equal(t, "nothing", next())
		for i := range 1000 {
			h.publish("1", fmt.Sprint(i))
		}
		first := next() // the watcher may have had one in hand
		if first != "MODIFIED ns/p1 1 a 999" {
			assert.Equal(t, "MODIFIED ns/p1 1 a 999", next())
		}
		assert.Equal(t, "nothing", next())
		h.drop("2")
		assert.Equal(t, "DELETED ns/p2 2  ", next())
		h.set("2", "again")
		assert.Equal(t, "ADDED ns/p2 2 again ", next())
		h.set("4", "a")
		synctest.Wait()
		h.drop("4")
		assert.Equal(t, "ADDED ns/p4 4 a ", next())
		assert.Equal(t, "DELETED ns/p4 4  ", next())
		cancel()
		wg.Wait()
		assert.Empty(t, h.watches())
	})
}

// watches returns the watches that are open.
func (h *host) watches() (all []*dirty.Set) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	for w := range h.server.mu.watchers {
		all = append(all, w)
	}
	return all
}

// Clients of any speed that apply the events have the node's pods in the end, and never see an event
// that does not fit the ones before.
func TestWatchersAgreeWithTheNode(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			h := newHost()
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			clients := make([]*client, 3)
			for i := range clients {
				c := &client{T: t, slow: time.Duration(rng.IntN(3)) * 7 * time.Millisecond, pods: map[types.UID]*v1.Pod{}}
				clients[i] = c
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 20 * time.Millisecond)
					_ = h.watch(ctx, c.apply)
				})
			}
			for i := range 200 {
				uid := types.UID(fmt.Sprint(rng.IntN(5)))
				switch rng.IntN(4) {
				case 0:
					h.set(string(uid), fmt.Sprint(i))
				case 1:
					h.drop(uid)
				default:
					h.publish(uid, fmt.Sprint(i))
				}
				time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			cancel()
			wg.Wait()
			want := map[types.UID]*v1.Pod{}
			for _, uid := range h.all() {
				want[uid] = h.pod(uid)
			}
			for _, c := range clients {
				require.Equal(t, want, c.pods, "seed %d", seed)
			}
		})
	}
}

// client applies events.
type client struct {
	*testing.T
	slow time.Duration
	pods map[types.UID]*v1.Pod
}

func (c *client) apply(e *api.WatchPodsEvent) error {
	time.Sleep(c.slow)
	if e.Type == api.EventType_INITIAL_SYNC_COMPLETE {
		return nil
	}
	pod := &v1.Pod{}
	assert.NoError(c, pod.Unmarshal(e.Pod))
	last := c.pods[pod.UID]
	assert.Equal(c, last == nil, e.Type == api.EventType_ADDED)
	assert.NotEqual(c, last, pod, "an event without a change")
	if c.pods[pod.UID] = pod; e.Type == api.EventType_DELETED {
		delete(c.pods, pod.UID)
	}
	return nil
}

func TestWatchesEndAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.set("1", "a")
		gone := errors.New("gone")
		require.ErrorIs(t, h.watch(t.Context(), func(*api.WatchPodsEvent) error { return gone }), gone)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range maxWatchers {
			wg.Go(func() { _ = h.watch(ctx, func(*api.WatchPodsEvent) error { return nil }) })
		}
		synctest.Wait()
		err := h.watch(ctx, func(*api.WatchPodsEvent) error { return nil })
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		cancel()
		wg.Wait()
		require.Empty(t, h.watches())
	})
}
