// SPDX-License-Identifier: Apache-2.0

package podsapi

import (
	"context"
	"hash/maphash"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/keelson-dev/keelson/internal/dirty"
)

// maxWatchers is the largest number of watches of all clients.
const maxWatchers = 100

// watch sends the pods and their changes until ctx ends or send fails.
func (s *server) watch(ctx context.Context, send func(*api.WatchPodsEvent) error) error {
	changed := dirty.New()
	if !s.join(changed) {
		return status.Errorf(codes.ResourceExhausted, "the node serves %d watches at most", maxWatchers)
	}
	defer s.leave(changed)
	w := watcher{server: s, send: send, seed: maphash.MakeSeed(), sent: map[types.UID]sentPod{}}
	for _, uid := range s.all() {
		if err := w.tell(uid); err != nil {
			return err
		}
	}
	if err := send(&api.WatchPodsEvent{Type: api.EventType_INITIAL_SYNC_COMPLETE}); err != nil {
		return err
	}
	for {
		select {
		case <-changed.Signal():
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		for _, uid := range changed.Take() {
			if err := w.tell(uid); err != nil {
				return err
			}
		}
	}
}

// join adds a set that receives the changed pods. It reports whether there were fewer than
// maxWatchers.
func (s *server) join(changed *dirty.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.watchers) >= maxWatchers {
		return false
	}
	s.mu.watchers[changed] = struct{}{}
	return true
}

func (s *server) leave(changed *dirty.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.watchers, changed)
}

// watcher is the state of a watch. It is for one goroutine.
type watcher struct {
	*server
	send func(*api.WatchPodsEvent) error
	seed maphash.Seed
	sent map[types.UID]sentPod // of this connection: by the last event, which was not DELETED
}

// sentPod is a pod as the client knows it.
type sentPod struct {
	namespace, name string
	sum             uint64
}

// tell sends an event if the client knows another state of the pod.
func (w *watcher) tell(uid types.UID) error {
	last, known := w.sent[uid]
	kind, pod := api.EventType_ADDED, w.pod(uid)
	switch {
	case pod == nil && !known:
		return nil
	case pod == nil:
		kind, pod = api.EventType_DELETED, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: last.namespace, Name: last.name, UID: uid}}
	case known:
		kind = api.EventType_MODIFIED
	}
	text, err := encode(pod)
	if err != nil {
		return err
	}
	next := sentPod{pod.Namespace, pod.Name, maphash.Bytes(w.seed, text)}
	switch {
	case kind == api.EventType_DELETED:
		delete(w.sent, uid)
	case next == last:
		return nil
	default:
		w.sent[uid] = next
	}
	return w.send(&api.WatchPodsEvent{Type: kind, Pod: text})
}

// encode returns a pod in the form of all answers.
func encode(pod *v1.Pod) ([]byte, error) {
	text, err := pod.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encode the pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return text, nil
}
