// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ownPods implements Pods for a Manager without Options.Pods: the calls of the Manager's methods
// decide the lifecycle of a pod. A pod needs its volumes from WaitForAttachAndMount to WaitForUnmount.
// The pod is gone after WaitForUnmount, or after a CleanupOrphan of a pod without an entry. The entry
// of a gone pod is deleted when the pod's volumes and folder are removed.
type ownPods struct {
	mu sync.Mutex
	// gone has an entry for each pod with volumes or a folder: false while the pod needs its volumes,
	// true if the pod is gone.
	gone map[types.UID]bool
}

func newOwnPods() *ownPods { return &ownPods{gone: map[types.UID]bool{}} }

// need notes that the pod needs its volumes.
func (p *ownPods) need(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[uid] = false
}

// release notes that the pod does not need its volumes any more.
func (p *ownPods) release(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[uid] = true
}

// orphan marks a pod without an entry as gone: no source knows the pod.
func (p *ownPods) orphan(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.gone[uid]; !known {
		p.gone[uid] = true
	}
}

// forget deletes a pod that is gone, after its volumes and folder are removed.
func (p *ownPods) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[uid] {
		delete(p.gone, uid)
	}
}

// ShouldPodRuntimeBeRemoved implements Pods.
func (p *ownPods) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone[uid]
}

// ShouldPodContainersBeTerminating implements Pods.
func (p *ownPods) ShouldPodContainersBeTerminating(uid types.UID) bool {
	return p.ShouldPodRuntimeBeRemoved(uid)
}
