// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Life is the lifecycle state of a pod.
type Life uint8

// The lifecycle states.
const (
	Alive Life = iota
	Terminating
	Gone
)

// Pods implements volumemanager.Pods with states set by Set. In the zero value every pod is Alive.
type Pods struct {
	mu struct {
		sync.Mutex
		lives map[types.UID]Life
	}
}

// Set sets the lifecycle state of the pod.
func (p *Pods) Set(uid types.UID, life Life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.lives == nil {
		p.mu.lives = map[types.UID]Life{}
	}
	p.mu.lives[uid] = life
}

func (p *Pods) life(uid types.UID) Life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.lives[uid]
}

// ShouldPodRuntimeBeRemoved reports whether the pod is Gone.
func (p *Pods) ShouldPodRuntimeBeRemoved(uid types.UID) bool { return p.life(uid) == Gone }

// ShouldPodContainersBeTerminating reports whether the pod is Terminating or Gone.
func (p *Pods) ShouldPodContainersBeTerminating(uid types.UID) bool { return p.life(uid) != Alive }
