// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// deltaPod returns a pod with a name and UID from small ranges.
func deltaPod(name, uid, content int) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("n", name), Namespace: "ns", UID: types.UID(fmt.Sprint("u", uid)),
		Labels: map[string]string{"content": fmt.Sprint(content)},
	}}
}

// randomPods returns pods with unique names, as choose does, and keeps some of the pods of before
// unchanged.
func randomPods(r *rand.Rand, before []*v1.Pod) []*v1.Pod {
	kept := map[string]*v1.Pod{}
	for _, p := range before {
		kept[p.Name] = p
	}
	var pods []*v1.Pod
	for _, name := range r.Perm(5) {
		old := kept[fmt.Sprint("n", name)]
		switch r.IntN(5) {
		case 0:
		case 1:
			pods = append(pods, deltaPod(name, r.IntN(6), r.IntN(3)))
		case 2:
			pods = append(pods, deltaPod(name, name, r.IntN(3)))
		default:
			if old != nil {
				pods = append(pods, old)
			}
		}
	}
	return pods
}

// TestPropertyChangesSayWhatASnapshotSays expects from changes the same pods and operations as from
// a snapshot.
func TestPropertyChangesSayWhatASnapshotSays(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		byDeltas, bySnapshots := newDeltaStore(t), newDeltaStore(t)
		var before []*v1.Pod
		byDeltas.tell(podconfig.Snapshot())
		bySnapshots.tell(podconfig.Snapshot())
		for step := range 20 {
			after := randomPods(r, before)
			say := changes(knownOf(before), knownOf(after))
			require.LessOrEqual(t, len(say), 2)
			require.ElementsMatch(t, bySnapshots.tell(podconfig.Snapshot(after...)), byDeltas.tell(say...), "seed %d, step %d", seed, step)
			require.Equal(t, bySnapshots.contents(), byDeltas.contents(), "seed %d, step %d", seed, step)
			before = after
		}
	}
}

type deltaStore struct {
	*testing.T
	*podconfig.Store
}

func newDeltaStore(t *testing.T) deltaStore {
	s, err := podconfig.NewStore(podconfig.StoreOptions{Rejected: func(podconfig.Rejection) {}})
	require.NoError(t, err)
	return deltaStore{t, s}
}

// tell returns all operations on pods caused by the changes.
func (s deltaStore) tell(say ...podconfig.Change) (ops []string) {
	for _, c := range say {
		updates, err := s.Merge(s.Context(), podconfig.SourceFile, c)
		require.NoError(s, err)
		for _, u := range updates {
			for _, p := range u.Pods {
				ops = append(ops, fmt.Sprint(u.Op, p.Name, p.UID, p.Labels))
			}
		}
	}
	return ops
}

func (s deltaStore) contents() map[types.UID]string {
	out := map[types.UID]string{}
	for _, p := range s.Pods() {
		out[p.UID] = fmt.Sprint(p.Name, p.Labels)
	}
	return out
}

func TestChangesSayNoMoreThanChanged(t *testing.T) {
	var pods []*v1.Pod
	for i := range 100 {
		pods = append(pods, deltaPod(i, i, 0))
	}
	edited := append([]*v1.Pod{deltaPod(0, 0, 1), deltaPod(1, 200, 1)}, pods[3:]...)
	say := changes(knownOf(pods), knownOf(edited))
	require.Len(t, say, 2)
	require.Equal(t, []types.UID{"u2"}, say[0].UIDs(), "u1 goes with its successor")
	require.Equal(t, edited[:2], say[1].Pods())
	require.Empty(t, changes(knownOf(pods), knownOf(pods)))
}
