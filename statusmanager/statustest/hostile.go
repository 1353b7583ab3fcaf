// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/statusmanager"
)

// Hostility is the treatment of the requests for one poisoned pod. The funcs are called one at a
// time, with the server's lock held, and must not call the server. A nil func does nothing.
type Hostility struct {
	// Name describes the hostility in test output.
	Name string
	// Delay returns an additional delay before the request, beyond Options.Latency. The end of the
	// request's context ends the delay, so a request with the delay Forever hangs.
	Delay func(request statusmanager.Request, n int) time.Duration
	// Refuse returns the error of a request that is not carried out, or nil to carry out the
	// request.
	Refuse func(request statusmanager.Request, n int) error
	// Lose returns an error to replace the answer of a request that was carried out, or nil.
	Lose func(request statusmanager.Request, n int) error
	// Mutate changes the pod before a patch is stored, as an admission webhook does. The answer
	// shows the change. Mutate must not write to before.
	Mutate func(before, after *v1.Pod, n int)
	// Meddle is a second writer. Meddle changes the pod after a patch is stored. The watch shows
	// the change, but the answer does not. before is the pod ahead of the patch; Meddle must not
	// write to before.
	Meddle func(before, after *v1.Pod, n int)
	// Reply replaces the pod in the answer of a GET or PATCH. Reply must not write to pod; nil
	// means an answer without a pod.
	Reply func(pod *v1.Pod, n int) *v1.Pod
}

// Forever is a delay until the end of the request's context.
const Forever time.Duration = math.MaxInt64

// poison is a Hostility in place.
type poison struct {
	Hostility
	requests int
}

// Poison applies h to the pod with the given name and replaces an earlier Hostility.
func (s *Server) Poison(pod string, h Hostility) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.poisons[pod] = &poison{Hostility: h}
}

// Heal ends the hostility against the pod with the given name. If the pod exists, watchers receive
// the pod as changed.
func (s *Server) Heal(pod string) {
	defer s.deliver()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.poisons, pod)
	for name, stored := range s.mu.pods {
		if name.Name == pod {
			next := stored.DeepCopy()
			if next.Annotations == nil {
				next.Annotations = map[string]string{}
			}
			next.Annotations["statustest/healed"] += "+"
			s.store(next)
		}
	}
}

// delay counts a request for a pod, and returns its additional delay.
func (s *Server) delay(kind statusmanager.Request, pod string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.poisons[pod]
	if p == nil {
		return 0
	}
	p.requests++
	if p.Delay == nil {
		return 0
	}
	return p.Delay(kind, p.requests)
}

// refuse returns the error of a request according to the pod's poison. The lock is held.
func (s *Server) refuse(kind statusmanager.Request, pod string) (*poison, error) {
	p := s.mu.poisons[pod]
	if p == nil {
		return &poison{}, nil
	}
	p.requests = max(p.requests, 1) // a request that began before Poison counts as the first
	if p.Refuse != nil {
		if err := p.Refuse(kind, p.requests); err != nil {
			return p, err
		}
	}
	return p, nil
}

// distort applies Lose and Reply to the answer of a request. The lock is held.
func (p *poison) distort(kind statusmanager.Request, pod *v1.Pod) (*v1.Pod, error) {
	if p.Lose != nil {
		if err := p.Lose(kind, p.requests); err != nil {
			return nil, err
		}
	}
	if p.Reply != nil && kind != statusmanager.RequestDelete {
		return p.Reply(pod, p.requests), nil
	}
	return pod, nil
}

// mutate and meddle change a private copy. The lock is held.
func (p *poison) mutate(before, after *v1.Pod) {
	if p.Mutate != nil {
		p.Mutate(before, after, p.requests)
	}
}

func (p *poison) meddle(s *Server, before, after *v1.Pod) {
	if p.Meddle == nil {
		return
	}
	next := after.DeepCopy()
	p.Meddle(before, next, p.requests)
	s.store(next)
}
