// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// keyQueues records, for each exclusive key (see podfacts.StaticName), the pod that holds the key and the
// waiting pods, first come first served.
//
// Invariant: a key is present exactly while a pod holds the key. The waiting pods are distinct and
// do not include the holder.
type keyQueues map[string]*keyQueue

type keyQueue struct {
	holder  types.UID
	waiting []types.UID
}

// join requests key for uid, which neither holds the key nor waits, and reports whether uid now holds the
// key. If not, uid is queued.
func (q keyQueues) join(key string, uid types.UID) bool {
	queue, held := q[key]
	if !held {
		q[key] = &keyQueue{holder: uid}
		return true
	}
	queue.waiting = append(queue.waiting, uid)
	return false
}

// leave removes uid from the holder or the waiting pods of key. If uid was the holder and another
// pod waits, the key passes to the first waiting pod, and leave returns the UID of the new holder.
// Otherwise ok is false.
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
