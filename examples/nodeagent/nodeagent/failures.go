// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// failures remembers how the last call for each pod failed, so that what goes on
// failing in the same way is said once, and shown for as long as it lasts.
type failures struct {
	mu struct {
		sync.Mutex
		byUID map[types.UID]string
	}
}

func newFailures() *failures {
	f := &failures{}
	f.mu.byUID = make(map[types.UID]string)
	return f
}

// changed notes how the last call failed, "" for not at all, and reports whether
// that is news.
func (f *failures) changed(uid types.UID, text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.byUID[uid] == text {
		return false
	}
	if text == "" {
		delete(f.mu.byUID, uid)
	} else {
		f.mu.byUID[uid] = text
	}
	return true
}

// last returns how the last call failed, "" if it did not.
func (f *failures) last(uid types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.byUID[uid]
}

// keep forgets every pod for which keep says no.
func (f *failures) keep(keep func(types.UID) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.mu.byUID, func(uid types.UID, _ string) bool { return !keep(uid) })
}
