// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
)

// conflicts finds among the ledgers other than l the pods that those just added to l get in the way of.
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

// conflict tells how a pod gets in the way of one in another ledger, if at all. A mirror pod has the name of its static
// pod by design.
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
