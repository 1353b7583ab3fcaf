// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// statuses holds the latest status of every pod that the agent knows.
type statuses struct {
	told    func(pod *v1.Pod, status v1.PodStatus) // may be nil; called in order per pod
	report  func(pod *v1.Pod, status v1.PodStatus) // the same, for the cluster
	changed chan struct{}                          // capacity 1: something changed

	mu struct {
		sync.RWMutex
		byUID map[types.UID]*v1.Pod // the pod with its live status; never written once stored
		came  map[types.UID]bool    // whose status is still the one that it came with; true: nobody has looked yet
	}
}

func newStatuses(told func(*v1.Pod, v1.PodStatus)) *statuses {
	s := &statuses{told: told, changed: make(chan struct{}, 1)}
	s.mu.byUID = make(map[types.UID]*v1.Pod)
	s.mu.came = make(map[types.UID]bool)
	return s
}

// set publishes a status. Calls for one pod come from its worker, one at a time.
func (s *statuses) set(pod *v1.Pod, status v1.PodStatus) {
	shallow := *pod
	shallow.Status = status
	s.mu.Lock()
	old := s.mu.byUID[pod.UID]
	same := old != nil && reflect.DeepEqual(old.Status, status)
	s.mu.byUID[pod.UID] = &shallow
	if _, came := s.mu.came[pod.UID]; came && same {
		s.mu.came[pod.UID] = false
	} else {
		delete(s.mu.came, pod.UID)
	}
	s.mu.Unlock()
	if same {
		return
	}
	s.signal()
	s.report(pod, status)
	if s.told != nil {
		s.told(pod, status)
	}
}

// add takes a pod in with the status that it comes with, and again with each newer
// one: an API server's first answer may be older than what the agent before this one
// has told it. It is the loop's: from the first change on, a pod's status is its
// worker's.
func (s *statuses) add(pod *v1.Pod) {
	s.mu.Lock()
	_, known := s.mu.byUID[pod.UID]
	if _, came := s.mu.came[pod.UID]; came || !known {
		s.mu.byUID[pod.UID] = pod
		s.mu.came[pod.UID] = true
	}
	s.mu.Unlock()
	if !known {
		s.signal()
	}
}

// get returns the last status published for a pod, else the one it came with.
func (s *statuses) get(pod *v1.Pod) v1.PodStatus {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if known, ok := s.mu.byUID[pod.UID]; ok {
		return known.Status
	}
	return pod.Status
}

// published returns the last status published for a pod, if there is one: what it came
// with counts once it was found to be true.
func (s *statuses) published(uid types.UID) (status v1.PodStatus, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pod, known := s.mu.byUID[uid]
	if !known || s.mu.came[uid] {
		return v1.PodStatus{}, false
	}
	return pod.Status, true
}

// drop forgets a pod's status.
func (s *statuses) drop(uid types.UID) { s.keep(func(other types.UID) bool { return other != uid }) }

// keep drops every pod for which keep says no.
func (s *statuses) keep(keep func(types.UID) bool) {
	s.mu.Lock()
	before := len(s.mu.byUID)
	maps.DeleteFunc(s.mu.byUID, func(uid types.UID, _ *v1.Pod) bool { return !keep(uid) })
	maps.DeleteFunc(s.mu.came, func(uid types.UID, _ bool) bool { return s.mu.byUID[uid] == nil })
	after := len(s.mu.byUID)
	s.mu.Unlock()
	if before != after {
		s.signal()
	}
}

// all returns the known pods with their live status, sorted; shared, read-only.
func (s *statuses) all() []*v1.Pod {
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.mu.byUID))
	s.mu.RUnlock()
	slices.SortFunc(all, comparePods)
	return all
}

func (s *statuses) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
