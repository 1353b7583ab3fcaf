// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCoalesce(t *testing.T) {
	// Rows are pending, columns the next: ADD, UPDATE, DELETE, REMOVE, RECONCILE.
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

func TestOrdered(t *testing.T) {
	var o ordered[string, int]
	_, _, ok := o.front()
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
	key, _, _ := o.front()
	require.Equal(t, "c", key)
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
