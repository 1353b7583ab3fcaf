// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
)

// conflicts returns the pods just added to l with the same UID or name as a pod in another ledger.
func conflicts(l *ledger, ledgers iter.Seq2[string, *ledger], added []*v1.Pod) []rejection {
	var found []rejection
	for _, p := range added {
		for _, other := range ledgers {
			if other == l {
				continue
			}
			if err := conflict(p, other); err != nil {
				found = append(found, rejection{pod: p, err: err})
			}
		}
	}
	return found
}

// conflict returns an error if p has the same UID or name as a pod of other. A mirror pod shares
// the name of its static pod by design.
func conflict(p *v1.Pod, other *ledger) error {
	if r, ok := other.pods.get(p.UID); ok {
		return fmt.Errorf("%w: %q has %s of the same UID %s", ErrConflict, other.source, FullName(r.pod), p.UID)
	}
	uid, ok := other.names[nameOf(p)]
	if !ok {
		return nil
	}
	if r, _ := other.pods.get(uid); IsMirror(p) || IsMirror(r.pod) {
		return nil
	}
	return fmt.Errorf("%w: %q has a pod of the same name %s, UID %s", ErrConflict, other.source, FullName(p), uid)
}
