// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// keyQueues says which pod holds each exclusive key and which wait for it, first come first served.
//
// Invariant: a key is present exactly while somebody holds it, and its waiters are distinct and not the holder.
type keyQueues map[string]*keyQueue

type keyQueue struct {
	holder  types.UID
	waiting []types.UID
}

// join asks for key on behalf of uid and reports whether uid now holds it; if not, uid waits for its turn.
func (q keyQueues) join(key string, uid types.UID) bool {
	queue, held := q[key]
	if !held {
		q[key] = &keyQueue{holder: uid}
		return true
	}
	if queue.holder == uid {
		return true
	}
	if !slices.Contains(queue.waiting, uid) {
		queue.waiting = append(queue.waiting, uid)
	}
	return false
}

// leave ends what uid has to do with key. If it was the holder and somebody waits, the key passes to the first of
// them, whose UID is returned; ok is false otherwise.
func (q keyQueues) leave(key string, uid types.UID) (next types.UID, ok bool) {
	queue, held := q[key]
	switch {
	case !held:
		return "", false
	case queue.holder != uid:
		queue.waiting = slices.DeleteFunc(queue.waiting, func(w types.UID) bool { return w == uid })
		return "", false
	case len(queue.waiting) == 0:
		delete(q, key)
		return "", false
	}
	queue.holder = queue.waiting[0]
	queue.waiting = slices.Delete(queue.waiting, 0, 1)
	return queue.holder, true
}
