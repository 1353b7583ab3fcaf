// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pods is what should run, as the loop has been told so far. The loop alone
// writes it; everybody may read. The pods are shared and never written.
type pods struct {
	mu struct {
		sync.RWMutex
		desired  map[types.UID]*v1.Pod
		rejected map[types.UID]bool // desired, but refused by admission
	}
}

func newPods() *pods {
	p := &pods{}
	p.mu.desired = make(map[types.UID]*v1.Pod)
	p.mu.rejected = make(map[types.UID]bool)
	return p
}

func (p *pods) set(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.desired[pod.UID] = pod
}

func (p *pods) remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.desired, uid)
	delete(p.mu.rejected, uid)
}

func (p *pods) get(uid types.UID) (*v1.Pod, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pod, ok := p.mu.desired[uid]
	return pod, ok
}

func (p *pods) reject(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.rejected[uid] = true
}

func (p *pods) admit(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.rejected, uid)
}

func (p *pods) isRejected(uid types.UID) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.mu.rejected[uid]
}

// all returns the desired pods by namespace, name and UID.
func (p *pods) all() []*v1.Pod {
	p.mu.RLock()
	all := slices.Collect(maps.Values(p.mu.desired))
	p.mu.RUnlock()
	slices.SortFunc(all, comparePods)
	return all
}

func comparePods(a, b *v1.Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(string(a.UID), string(b.UID))
}
