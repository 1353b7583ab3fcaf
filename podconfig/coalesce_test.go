// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/require"
)

func TestCoalesce(t *testing.T) {
	// Rows are the pending operation, columns the next: ADD, UPDATE, DELETE, REMOVE, RECONCILE.
	next := []Op{OpAdd, OpUpdate, OpDelete, OpRemove, OpReconcile}
	for pending, want := range map[Op][]Op{
		OpAdd:       {OpAdd, OpAdd, OpAdd, 0, OpAdd},
		OpUpdate:    {OpUpdate, OpUpdate, OpDelete, OpRemove, OpUpdate},
		OpDelete:    {OpUpdate, OpUpdate, OpDelete, OpRemove, OpDelete},
		OpReconcile: {OpUpdate, OpUpdate, OpDelete, OpRemove, OpReconcile},
	} {
		for i, op := range next {
			require.Equal(t, want[i], coalesce(pending, op), "%s then %s", pending, op)
		}
	}
}

// TestBacklogForgetsWhatWasTold expects that an unbounded queue does not remember the pods and
// sources of consumed updates.
func TestBacklogForgetsWhatWasTold(t *testing.T) {
	b := newBacklog()
	told := []Update{
		{Op: OpAdd, Source: "api", Synced: true}, {Op: OpAdd}, {Op: OpUpdate}, {Op: OpRemove}, {Op: OpReconcile}, {Op: OpRemove},
	}
	for i, u := range told {
		for j, next := range told {
			for k, p := range []*v1.Pod{{}, {}, nil} {
				u, next := u, next
				if p != nil {
					p.UID = types.UID(fmt.Sprint(i, j, k))
					u.Pods, next.Pods = []*v1.Pod{p}, []*v1.Pod{p}
				}
				b.push(u)
				b.push(next)
			}
		}
	}
	for ok := true; ok; _, ok = b.pop() {
		continue
	}
	require.Zero(t, b.entries.len())
	require.Empty(t, b.places)
	require.Empty(t, b.marks)
}

func TestOrdered(t *testing.T) {
	var o ordered[string, int]
	_, ok := o.front()
	require.False(t, ok)
	o.remove("nothing")
	for i, key := range []string{"a", "b", "c", "d"} {
		o.set(key, i)
	}
	o.set("b", 10)
	value, ok := o.get("b")
	require.True(t, ok)
	require.Equal(t, 10, value)
	_, ok = o.get("z")
	require.False(t, ok)

	walk := func() (keys string) {
		for key := range o.all() {
			keys += key
		}
		return keys
	}
	require.Equal(t, "abcd", walk())
	o.remove("b") // in the middle
	require.Equal(t, "acd", walk())
	o.remove("d") // the last
	o.set("e", 5)
	o.remove("a") // the first
	require.Equal(t, "ce", walk())
	value, ok = o.front()
	require.True(t, ok)
	require.Equal(t, 2, value)
	for key := range o.all() {
		o.remove(key)
		if key == "c" {
			continue
		}
	}
	require.Zero(t, o.len())
	require.Equal(t, "", walk())
	o.set("a", 1)
	for range o.all() {
		break
	}
	require.Equal(t, "a", walk())
}
