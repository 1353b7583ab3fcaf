// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/semantic"
)

// The annotations of mirror pods and static pods.
const (
	mirrorAnnotation = "kubernetes.io/config.mirror"
	hashAnnotation   = "kubernetes.io/config.hash"
)

// ErrNoPod: the server has no pod with the given UID.
var ErrNoPod = errors.New("statustest: no such pod")

// Options configure a Server.
type Options struct {
	// Latency is the duration of a request; its effect happens at the end. Defaults to 0.
	Latency time.Duration
	// Drop removes, in place, the parts of a patched status that the server does not store, like a
	// server without a feature. Drop must be deterministic. Defaults to nothing.
	Drop func(*v1.PodStatus)
	// JournalLimit is how many requests the journal holds, the last ones. Defaults to 0: all
	// requests; negative: no requests.
	JournalLimit int
	// History is how many changes of a node's pods are kept for watches of a Client that begin at an
	// earlier resource version. Defaults to 100; negative: none, as after Compact.
	History int
}

// Server holds pods. All methods are safe for concurrent use. Returned pods are never written to.
type Server struct {
	options Options
	born    time.Time

	mu struct {
		sync.Mutex
		version int
		pods    map[types.NamespacedName]*v1.Pod
		names   map[types.UID]types.NamespacedName
		nodes   map[string]bool
		journal []Entry
		totals  totals
		faults  []*Injected
		poisons map[string]*poison // by the name of the pod
		feeds   map[string]*feed   // by the name of the node; "": all pods
		// pending are changes not yet delivered to watchers; delivering: a goroutine delivers them.
		watchers   []func(*v1.Pod)
		pending    []*v1.Pod
		delivering bool
	}
}

// New returns a Server without pods. The error names the invalid field of o.
func New(o Options) (*Server, error) {
	if o.Latency < 0 {
		return nil, fmt.Errorf("statustest: Options.Latency is negative: %s", o.Latency)
	}
	o.History = max(0, cmp.Or(o.History, defaultHistory))
	s := &Server{options: o, born: time.Now()}
	s.mu.feeds = map[string]*feed{}
	s.mu.pods = map[types.NamespacedName]*v1.Pod{}
	s.mu.names = map[types.UID]types.NamespacedName{}
	s.mu.nodes = map[string]bool{}
	s.mu.poisons = map[string]*poison{}
	return s, nil
}

// Watch calls f for every pod created or changed from now on, in order, one at a time and without a
// lock held, in the goroutine of the change. Removals are not reported.
func (s *Server) Watch(f func(*v1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.watchers = append(s.mu.watchers, f)
}

// Create stores a copy of pod and replaces a pod of the same name. A pod without a UID gets a UID.
// Create returns the stored pod.
func (s *Server) Create(pod *v1.Pod) *v1.Pod { return s.Adopt(pod.DeepCopy()) }

// Adopt is Create without a copy: the caller must not write to pod and to objects to which pod points.
// Pods may share such objects.
func (s *Server) Adopt(pod *v1.Pod) *v1.Pod {
	defer s.deliver()
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.mu.pods[nameOf(pod)]; ok {
		s.drop(old.UID)
	}
	if pod.UID == "" {
		pod.UID = types.UID(fmt.Sprintf("uid-%d", s.mu.version+1))
	}
	return s.store(pod)
}

// Change edits a pod like another client of the API server: edit receives a copy. Change returns
// the stored pod.
func (s *Server) Change(uid types.UID, edit func(*v1.Pod)) (*v1.Pod, error) {
	defer s.deliver()
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.mu.pods[s.mu.names[uid]]
	if !ok {
		return nil, fmt.Errorf("%w: UID %s", ErrNoPod, uid)
	}
	pod = pod.DeepCopy()
	edit(pod)
	return s.store(pod), nil
}

// Delete sets a deletion timestamp, like a client that deletes the pod.
func (s *Server) Delete(uid types.UID) (*v1.Pod, error) {
	return s.Change(uid, func(pod *v1.Pod) {
		if pod.DeletionTimestamp == nil {
			now := metav1.NewTime(time.Now().Truncate(time.Second))
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, new(int64(30))
		}
	})
}

// Remove deletes a pod at once, like a client that deletes by force.
func (s *Server) Remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(uid)
}

// Get returns a pod, or nil.
func (s *Server) Get(uid types.UID) *v1.Pod {
	pod, _ := s.Pod(uid)
	return pod
}

// Pod returns a pod, like an informer without delay.
func (s *Server) Pod(uid types.UID) (*v1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.mu.pods[s.mu.names[uid]]
	return pod, ok
}

// Pods returns all pods, in no order.
func (s *Server) Pods() []*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.mu.pods))
}

// Mirror returns the mirror pod whose annotation holds the UID of the static pod.
func (s *Server) Mirror(static types.UID) (*v1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.mu.pods {
		if hash, ok := pod.Annotations[mirrorAnnotation]; ok && types.UID(hash) == static {
			return pod, true
		}
	}
	return nil, false
}

// Static returns the UID of the static pod of a mirror pod.
func (s *Server) Static(mirror types.UID) (types.UID, bool) {
	pod, ok := s.Pod(mirror)
	if !ok {
		return "", false
	}
	hash, ok := pod.Annotations[mirrorAnnotation]
	return types.UID(hash), ok
}

// CreateMirror stores the mirror pod of a static pod. Without a hash annotation, the hash of the
// static pod is its UID. Server.Mirror and Server.Static find the mirror pods of static pods whose
// UID is their hash, as usual in the kubelet.
func (s *Server) CreateMirror(static *v1.Pod) *v1.Pod {
	mirror := static.DeepCopy()
	mirror.UID = ""
	if mirror.Annotations == nil {
		mirror.Annotations = map[string]string{}
	}
	hash := cmp.Or(static.Annotations[hashAnnotation], string(static.UID))
	mirror.Annotations[mirrorAnnotation], mirror.Annotations[hashAnnotation] = hash, hash
	mirror.Status = v1.PodStatus{Phase: v1.PodPending}
	return s.Create(mirror)
}

// store stores pod, unless the stored pod is equal, and returns the stored pod. The lock is held.
func (s *Server) store(pod *v1.Pod) *v1.Pod {
	name := nameOf(pod)
	if old, ok := s.mu.pods[name]; ok && old.UID == pod.UID {
		pod.ResourceVersion = old.ResourceVersion
		if semantic.Equal(old, pod) {
			return old
		}
	}
	s.mu.version++
	pod.ResourceVersion = s.resourceVersion()
	s.mu.pods[name], s.mu.names[pod.UID] = pod, name
	s.mu.pending = append(s.mu.pending, pod)
	s.tell(watch.Modified, pod)
	return pod
}

// drop forgets a pod. The lock is held.
func (s *Server) drop(uid types.UID) {
	pod, ok := s.mu.pods[s.mu.names[uid]]
	if !ok {
		return
	}
	delete(s.mu.pods, s.mu.names[uid])
	delete(s.mu.names, uid)
	s.mu.version++
	gone := *pod
	gone.ResourceVersion = s.resourceVersion()
	s.tell(watch.Deleted, &gone)
}

// deliver calls the watchers for pending changes, in order, unless another goroutine is delivering.
func (s *Server) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.delivering {
		return
	}
	s.mu.delivering = true
	for len(s.mu.pending) > 0 {
		pod, watchers := s.mu.pending[0], s.mu.watchers
		s.mu.pending = s.mu.pending[1:]
		s.mu.Unlock()
		for _, watch := range watchers {
			watch(pod)
		}
		s.mu.Lock()
	}
	s.mu.delivering = false
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
