// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Life is where a pod is in its life.
type Life uint8

// The lives.
const (
	Alive Life = iota
	Terminating
	Gone
)

// Pods is a volumemanager.Pods that says what it was told. The zero value says of
// every pod that it lives.
type Pods struct {
	mu struct {
		sync.Mutex
		lives map[types.UID]Life
	}
}

// Set says where the pod is in its life.
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

// ShouldPodRuntimeBeRemoved reports whether Set said Gone.
func (p *Pods) ShouldPodRuntimeBeRemoved(uid types.UID) bool { return p.life(uid) == Gone }

// ShouldPodContainersBeTerminating reports whether Set said Terminating or Gone.
func (p *Pods) ShouldPodContainersBeTerminating(uid types.UID) bool { return p.life(uid) != Alive }
