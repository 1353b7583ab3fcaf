// SPDX-License-Identifier: Apache-2.0

package podsapi

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/dirty"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/podconfig"
)

// maxPath is the longest path of a Unix socket on Linux.
const maxPath = 107

// New returns the feature. The socket is pods-api/pods-api.sock in the node's root folder. The folder
// of the socket is created if it is missing, and its mode is set to 0700. New fails if the path of the
// socket is too long.
func New(h *feature.Host) (feature.Feature, error) {
	path := filepath.Join(h.Root, "pods-api", "pods-api.sock")
	if len(path) > maxPath {
		return feature.Feature{}, fmt.Errorf("podsapi: %s: the path of a socket has at most %d bytes, not %d", path, maxPath, len(path))
	}
	s := newServer(h.Table, h.Log)
	s.status, s.sourced = h.Status, h.HasSourced
	return feature.Feature{
		Name:          "pods-api",
		ConfigUpdated: s.updated,
		Published:     func(pod *v1.Pod, _ v1.PodStatus) { s.mark(pod.UID) },
		Housekeep:     s.forget,
		Run:           (&socket{server: s, path: path, log: h.Log}).run,
	}, nil
}

// server knows the pods and tells watchers of the changed ones.
type server struct {
	pods    *feature.Slot[*v1.Pod] // as their source delivered them last
	status  func(*v1.Pod) v1.PodStatus
	sourced func() bool
	log     *zap.Logger
	calls   *rate.Limiter

	mu struct {
		sync.Mutex
		watchers map[*dirty.Set]struct{}
	}
}

func newServer(t *feature.Table, log *zap.Logger) *server {
	s := &server{pods: feature.NewSlot[*v1.Pod](t), log: log, calls: rate.NewLimiter(maxRate, maxBurst)}
	s.mu.watchers = map[*dirty.Set]struct{}{}
	return s
}

// updated stores the pods of an update. A pod that has left its source stays until the node forgets the
// pod.
func (s *server) updated(u podconfig.Update) {
	for _, pod := range u.Pods {
		if !podfacts.IsMirror(pod) {
			s.pods.Set(pod.UID, pod)
			s.mark(pod.UID)
		}
	}
}

// forget removes the pods that the node does not know any more.
func (s *server) forget(known func(types.UID) bool) {
	for uid := range s.pods.All() {
		if !known(uid) {
			s.pods.Drop(uid)
			s.mark(uid)
		}
	}
}

// mark tells all watchers that a pod changed. mark follows the change.
func (s *server) mark(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.watchers {
		w.Mark(uid)
	}
}

// pod returns a pod with its live status, or nil if the node does not have the pod.
func (s *server) pod(uid types.UID) *v1.Pod {
	pod := s.pods.Get(uid)
	if pod == nil {
		return nil
	}
	shallow := *pod
	shallow.Status = s.status(pod)
	return &shallow
}

// all returns the UIDs of the pods, in the order of namespaces, names and UIDs.
func (s *server) all() []types.UID {
	pods := maps.Collect(s.pods.All())
	return slices.SortedFunc(maps.Keys(pods), func(a, b types.UID) int {
		return cmp.Or(cmp.Compare(pods[a].Namespace, pods[b].Namespace), cmp.Compare(pods[a].Name, pods[b].Name), cmp.Compare(a, b))
	})
}
