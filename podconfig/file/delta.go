// SPDX-License-Identifier: Apache-2.0

package file

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// known is pods in the order of their files, and by their UIDs.
type known struct {
	pods []*v1.Pod
	uids map[types.UID]*v1.Pod
}

func knownOf(pods []*v1.Pod) known {
	k := known{pods: pods, uids: make(map[types.UID]*v1.Pod, len(pods))}
	for _, p := range pods {
		k.uids[p.UID] = p
	}
	return k
}

// ambiguous tells that two pods have one UID.
func (k known) ambiguous() bool { return len(k.uids) < len(k.pods) }

// changes returns what to say to somebody who knows the pods of before so that he knows those of after: what left, then
// what is new or another object, each only if there is any. So an edit among a thousand manifests costs no comparison of
// a thousand pods.
//
// What left and has a successor of its name goes with that one, in one change. Where two pods have one UID, which of
// them counts is the merger's to say, and it is told the whole.
func changes(before, after known) []podconfig.Change {
	if before.ambiguous() || after.ambiguous() {
		return []podconfig.Change{podconfig.Snapshot(after.pods...)}
	}
	var fresh []*v1.Pod
	renewed := map[string]bool{}
	for _, p := range after.pods {
		if before.uids[p.UID] != p {
			fresh = append(fresh, p)
			renewed[podName(p)] = true
		}
	}
	var gone []types.UID
	for _, p := range before.pods {
		if after.uids[p.UID] == nil && !renewed[podName(p)] {
			gone = append(gone, p.UID)
		}
	}
	var out []podconfig.Change
	if len(gone) > 0 {
		out = append(out, podconfig.Remove(gone...))
	}
	if len(fresh) > 0 {
		out = append(out, podconfig.Upsert(fresh...))
	}
	return out
}
