// SPDX-License-Identifier: Apache-2.0

package feature_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

func pod(namespace, name, uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

func TestASlotIsPartOfTheRecord(t *testing.T) {
	table := feature.NewTable()
	count, name := feature.NewSlot[int](table), feature.NewSlot[string](table)
	assert.Zero(t, count.Get("a"))
	count.Set("a", 1)
	count.With("a", func(n *int) { *n++ })
	assert.Equal(t, 2, count.Get("a"))
	assert.Empty(t, name.Get("a"))
	late := feature.NewSlot[bool](table) // added after the record exists
	assert.False(t, late.Get("a"))
	late.Set("a", true)
	assert.True(t, late.Get("a"))
	count.Set("b", 7)
	assert.Equal(t, map[types.UID]int{"a": 2, "b": 7}, maps.Collect(count.All()))
	assert.Equal(t, 2, count.Drop("a"))
	assert.Zero(t, count.Drop("a"))
	assert.Zero(t, count.Drop("never"))
	assert.Equal(t, map[types.UID]int{"b": 7}, maps.Collect(count.All()))
	assert.True(t, late.Get("a"), "the other slots stay")
}

func TestARecordStaysWhileThePodIsDesiredOrKnown(t *testing.T) {
	table := feature.NewTable()
	slot := feature.NewSlot[int](table)
	table.SetDesired(pod("n", "wanted", "wanted"))
	for _, uid := range []types.UID{"wanted", "known", "gone"} {
		slot.Set(uid, 1)
	}
	table.Prune(func(uid types.UID) bool { return uid == "known" })
	assert.Equal(t, map[types.UID]int{"wanted": 1, "known": 1}, maps.Collect(slot.All()))
	table.RemoveDesired("wanted")
	assert.Equal(t, 1, slot.Get("wanted"))
	table.Prune(func(types.UID) bool { return false })
	assert.Empty(t, maps.Collect(slot.All()))
}

func TestALastingSlotOutlivesTheRecord(t *testing.T) {
	table := feature.NewTable()
	slot, lasting := feature.NewSlot[int](table), feature.NewLastingSlot[int](table)
	lasting.Set("of an earlier agent", 1)
	lasting.Set("gone", 2)
	slot.Set("gone", 3)
	table.Prune(func(types.UID) bool { return false })
	assert.Equal(t, map[types.UID]int{"of an earlier agent": 1, "gone": 2}, maps.Collect(lasting.All()))
	assert.Zero(t, slot.Get("gone"), "another pod of this UID finds no value of the last one")
	assert.Empty(t, maps.Collect(slot.All()))
	assert.Equal(t, 2, lasting.Drop("gone"))
	table.Prune(func(types.UID) bool { return false })
	assert.Equal(t, map[types.UID]int{"of an earlier agent": 1}, maps.Collect(lasting.All()))
}

func TestEntryOfAPod(t *testing.T) {
	table := feature.NewTable()
	assert.True(t, table.MayRun("unknown"))
	refusal := &v1.PodStatus{Phase: v1.PodFailed}
	table.SetDesired(pod("n", "a", "a"))
	table.SetEntry("a", feature.Refused, refusal)
	assert.Equal(t, feature.Refused, table.Listing("a").Entry)
	assert.Same(t, refusal, table.Listing("a").Refusal)
	assert.False(t, table.MayRun("a"))
	table.SetEntry("a", feature.Held, nil)
	assert.False(t, table.MayRun("a"))
	table.SetEntry("a", feature.Admitted, nil)
	assert.True(t, table.MayRun("a"))
	table.SetEntry("a", feature.Refused, refusal)
	table.RemoveDesired("a")
	assert.Equal(t, feature.Listing{Listed: true}, table.Listing("a"), "a pod of this UID that comes later is asked anew")
}

func TestDesiredPodsAreInOrder(t *testing.T) {
	table := feature.NewTable()
	for _, p := range []*v1.Pod{pod("b", "a", "1"), pod("a", "b", "2"), pod("a", "a", "4"), pod("a", "a", "3")} {
		table.SetDesired(p)
	}
	var order string
	for _, p := range table.DesiredPods() {
		order += string(p.UID)
	}
	assert.Equal(t, "3421", order)
	newer := pod("a", "b", "2")
	table.SetDesired(newer)
	newest, ok := table.Desired("2")
	assert.True(t, ok)
	assert.Same(t, newer, newest)
	_, ok = table.Desired("x")
	assert.False(t, ok)
}

// TestTableAtOnce uses the table from several goroutines, as the workers of many pods, the loop and
// a reader do.
func TestTableAtOnce(t *testing.T) {
	table := feature.NewTable()
	slot := feature.NewSlot[int](table)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := range 200 {
				uid := fmt.Sprint((i + round) % 16)
				table.SetDesired(pod("n", uid, uid))
				slot.With(types.UID(uid), func(n *int) { *n++ })
				for range slot.All() {
					break
				}
				table.DesiredPods()
				if i == 0 {
					table.RemoveDesired(types.UID(uid))
					table.Prune(func(types.UID) bool { return false })
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, len(maps.Collect(slot.All())), 16)
}
