// SPDX-License-Identifier: Apache-2.0

package file

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// changes returns what to say to somebody who knows the pods of before so that he knows those of after: what left, then
// what is new or another object, each only if there is any. So an edit among a thousand manifests costs no comparison of
// a thousand pods.
//
// What left and has a successor of its name goes with that one, in one change. Where two pods have one UID, which of
// them counts is the merger's to say, and it is told the whole.
func changes(before, after []*v1.Pod) []podconfig.Change {
	was, is := byUID(before), byUID(after)
	if len(was) < len(before) || len(is) < len(after) {
		return []podconfig.Change{podconfig.Snapshot(after...)}
	}
	var fresh []*v1.Pod
	renewed := map[string]bool{}
	for _, p := range after {
		if was[p.UID] != p {
			fresh = append(fresh, p)
			renewed[podName(p)] = true
		}
	}
	var gone []types.UID
	for _, p := range before {
		if is[p.UID] == nil && !renewed[podName(p)] {
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

func byUID(pods []*v1.Pod) map[types.UID]*v1.Pod {
	m := make(map[types.UID]*v1.Pod, len(pods))
	for _, p := range pods {
		m[p.UID] = p
	}
	return m
}
