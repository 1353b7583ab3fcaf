// SPDX-License-Identifier: Apache-2.0

package file

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// known holds pods in the order of their files, and by UID.
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

// ambiguous reports whether two pods have the same UID.
func (k known) ambiguous() bool { return len(k.uids) < len(k.pods) }

// changes returns the changes that turn the pods of before into the pods of after: a Remove and
// then an Upsert, each only if not empty. An edit among a thousand manifests thus costs no
// comparison of a thousand pods.
//
// A pod replaced by a pod of the same name is not removed separately, because the Upsert replaces
// it. If two pods have the same UID, changes returns a Snapshot, and the merger decides which pod
// to accept.
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
