// SPDX-License-Identifier: Apache-2.0

// Package dirty holds a set of changed pods until the reader takes the pods. The reader pulls, so nothing can overflow.
// A pod that changes again after being taken is marked again.
package dirty

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/signal"
)

// Set is a set of pod UIDs with a signal. All methods are safe for concurrent use. Use New.
type Set struct {
	signal signal.Signal // capacity 1: the set may not be empty

	mu      sync.Mutex
	ordered []types.UID
	has     map[types.UID]struct{}
}

// New returns an empty set.
func New() *Set {
	return &Set{signal: signal.New(), has: make(map[types.UID]struct{})}
}

// Mark adds a pod.
func (s *Set) Mark(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.has[uid]; ok {
		return
	}
	s.has[uid] = struct{}{}
	s.ordered = append(s.ordered, uid)
	s.signal.Notify()
}

// Drop removes a deleted pod.
func (s *Set) Drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.has[uid]; ok {
		delete(s.has, uid)
		s.ordered = slices.DeleteFunc(s.ordered, func(other types.UID) bool { return other == uid })
	}
}

// Signal receives a value when Take may have something to return. Signal is for one receiver.
func (s *Set) Signal() <-chan struct{} { return s.signal }

// Take returns the pods, in the order of marking, and empties the set. The slice is the caller's.
func (s *Set) Take() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.ordered
	s.ordered = nil
	clear(s.has)
	return taken
}
