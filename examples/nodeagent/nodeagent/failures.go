// SPDX-License-Identifier: Apache-2.0

package nodeagent

import "k8s.io/apimachinery/pkg/types"

// failures remembers how the last call for each pod failed, so that what goes on
// failing in the same way is said once, and shown for as long as it lasts.
type failures struct{ *byUID[string] }

func newFailures() *failures { return &failures{newByUID[string]()} }

// changed notes how the last call failed, "" for not at all, and reports whether
// that is news.
func (f *failures) changed(uid types.UID, text string) bool { return f.set(uid, text) }

// last returns how the last call failed, "" if it did not.
func (f *failures) last(uid types.UID) string { return f.get(uid) }
