// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slotPatience is how long a start may hold its slot. One that takes longer does
// not load the node but hangs, which is no reason for others to wait.
const slotPatience = 5 * time.Second

// slotClass orders those who wait for a slot.
type slotClass uint8

const (
	slotContainer slotClass = iota // a pod that has begun is finished first
	slotSandbox
	slotClasses
)

// slots bound how much is being started at once. Who waits is served by class,
// then in the order of arrival.
type slots struct {
	mu struct {
		sync.Mutex
		free    int
		waiting [slotClasses][]chan struct{} // closed when the slot is theirs
	}
}

func newSlots(n int) *slots {
	s := &slots{}
	s.mu.free = n
	return s
}

// acquire waits for a slot. The returned func gives it back, and so does time.
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
	timer := time.AfterFunc(slotPatience, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}
}

// leave ends a wait. If the slot had just become its, it is passed on.
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
