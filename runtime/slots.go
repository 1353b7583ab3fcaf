// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slotPatience is the longest time for which a start keeps its slot. A longer start hangs without
// loading the node, and must not delay other starts.
const slotPatience = 5 * time.Second

// slotClass is the priority of a wait for a slot.
type slotClass uint8

const (
	slotContainer slotClass = iota // first: the containers of pods with a sandbox
	slotSandbox
	slotClasses
)

// slots bounds the number of starts in progress. Waiting starts are served by class, then in the
// order of arrival.
type slots struct {
	mu struct {
		sync.Mutex
		free    int
		waiting [slotClasses][]chan struct{} // closed when the waiter has its slot
	}
}

func newSlots(n int) *slots {
	s := &slots{}
	s.mu.free = n
	return s
}

// acquire waits for a slot. The slot becomes free with a call of release, or after slotPatience.
func (s *slots) acquire(ctx context.Context, class slotClass) (release func(), err error) {
	s.mu.Lock()
	if s.mu.free > 0 {
		s.mu.free--
		s.mu.Unlock()
		return s.lend(), nil
	}
	turn := make(chan struct{})
	s.mu.waiting[class] = append(s.mu.waiting[class], turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return s.lend(), nil
	case <-ctx.Done():
		s.leave(class, turn)
		return nil, context.Cause(ctx)
	}
}

func (s *slots) lend() (release func()) {
	giveBack := sync.OnceFunc(s.release)
	time.AfterFunc(slotPatience, giveBack)
	return giveBack
}

// leave ends a wait. If turn has just received a slot, leave passes the slot on.
func (s *slots) leave(class slotClass, turn chan struct{}) {
	s.mu.Lock()
	i := slices.Index(s.mu.waiting[class], turn)
	if i >= 0 {
		s.mu.waiting[class] = slices.Delete(s.mu.waiting[class], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.release()
	}
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for class := range s.mu.waiting {
		if queue := s.mu.waiting[class]; len(queue) > 0 {
			close(queue[0])
			s.mu.waiting[class] = slices.Delete(queue, 0, 1)
			return
		}
	}
	s.mu.free++
}
