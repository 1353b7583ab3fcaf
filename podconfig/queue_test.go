// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

const (
	opAdd, opUpdate, opDelete = podconfig.OpAdd, podconfig.OpUpdate, podconfig.OpDelete
	opRemove, opReconcile     = podconfig.OpRemove, podconfig.OpReconcile
)

func update(op podconfig.Op, pods ...*v1.Pod) podconfig.Update {
	return podconfig.Update{Op: op, Source: "api", Pods: pods}
}

func from(source string, u podconfig.Update) podconfig.Update {
	u.Source = source
	return u
}

func synced(u podconfig.Update) podconfig.Update {
	u.Synced = true
	return u
}

func drain(q *podconfig.Queue) []podconfig.Update {
	var out []podconfig.Update
	for u, ok := q.Pop(); ok; u, ok = q.Pop() {
		out = append(out, u)
	}
	return out
}

func TestQueueCoalesces(t *testing.T) {
	a, b, a2 := pod("a", "1"), pod("b", "2"), pod("a", "9")
	type updates = []podconfig.Update
	for _, tt := range []struct {
		name   string
		pushed updates
		want   string
	}{
		{"nothing in common", updates{update(opAdd, a), update(opUpdate, b)}, "ADD[a/1] UPDATE[b/2]"},
		{"alike is told at once", updates{update(opAdd, a), update(opAdd, b)}, "ADD[a/1 b/2]"},
		{"ADD then others", updates{update(opAdd, a), update(opUpdate, a), update(opDelete, a), update(opReconcile, a)}, "ADD[a/1]"},
		{"ADD then REMOVE", updates{update(opAdd, a), update(opUpdate, a), update(opRemove, a)}, ""},
		{"UPDATE then RECONCILE", updates{update(opUpdate, a), update(opReconcile, a)}, "UPDATE[a/1]"},
		{"UPDATE then DELETE", updates{update(opUpdate, a), update(opDelete, a)}, "DELETE[a/1]"},
		{"RECONCILE then DELETE", updates{update(opReconcile, a), update(opDelete, a)}, "DELETE[a/1]"},
		{"DELETE then UPDATE", updates{update(opDelete, a), update(opUpdate, a)}, "UPDATE[a/1]"},
		{"then REMOVE", updates{update(opUpdate, a), update(opUpdate, b), update(opDelete, a), update(opRemove, a)}, "REMOVE[a/1] UPDATE[b/2]"},
		{"REMOVE then ADD", updates{update(opRemove, a), update(opUpdate, b), update(opAdd, a)}, "REMOVE[a/1] UPDATE[b/2] ADD[a/1]"},
		{"REMOVE then ADD then UPDATE", updates{update(opRemove, a), update(opAdd, a), update(opUpdate, a)}, "REMOVE[a/1] ADD[a/1]"},
		{"REMOVE, ADD, REMOVE", updates{update(opRemove, a), update(opAdd, a), update(opRemove, a), update(opRemove, a)}, "REMOVE[a/1]"},
		{"what follows REMOVE is new", updates{update(opRemove, a), update(opReconcile, a)}, "REMOVE[a/1] ADD[a/1]"},
		{"UPDATE, REMOVE, RECONCILE", updates{update(opUpdate, a), update(opRemove, a), update(opReconcile, a)}, "REMOVE[a/1] ADD[a/1]"},
		{"name-sake", updates{update(opUpdate, a), update(opUpdate, b), update(opRemove, a), update(opAdd, a2)}, "REMOVE[a/1] UPDATE[b/2] ADD[a/9]"},
		{"sources are apart", updates{update(opAdd, a), from("file", update(opAdd, a)), update(opRemove, a)}, "ADD[a/1]"},
		{"empty ADD survives", updates{update(opAdd), update(opAdd, a)}, "ADD[] ADD[a/1]"},
		{"empty ADD of its own", updates{update(opAdd, a), synced(update(opAdd))}, "ADD[a/1] ADD[]+"},
		{"synced goes along", updates{synced(update(opAdd, a, b)), update(opAdd, a2)}, "ADD[a/1 b/2]+ ADD[a/9]"},
		{"synced survives its pods", updates{synced(update(opAdd, a)), update(opRemove, a)}, "ADD[]+"},
		{"synced is never early", updates{update(opAdd), synced(update(opReconcile, a))}, "RECONCILE[a/1] ADD[]+"},
		{"synced survives another mark", updates{synced(update(opAdd)), update(opAdd)}, "ADD[]+"},
		{"empty ADD after synced", updates{synced(update(opUpdate, a)), update(opAdd)}, "UPDATE[a/1] ADD[]+"},
		{"synced with a removal", updates{update(opUpdate, a), synced(update(opRemove, a))}, "REMOVE[a/1]+"},
		{"empty others say nothing", updates{update(opUpdate), update(opRemove)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := podconfig.NewQueue()
			for range 2 {
				for _, u := range tt.pushed {
					require.NoError(t, q.Push(t.Context(), u))
				}
				require.Equal(t, tt.want, brief(drain(q)))
				require.Zero(t, q.Len())
			}
			require.NoError(t, q.Push(t.Context(), update(opUpdate, a)))
			require.Equal(t, "UPDATE[a/1]", brief(drain(q)), "nothing is left behind")
		})
	}
}

func TestQueueTellsTheLatestContent(t *testing.T) {
	q := podconfig.NewQueue()
	for _, u := range []podconfig.Update{
		update(opAdd, pod("a", "1")), update(opUpdate, pod("a", "1", image("x:2"))), update(opReconcile, pod("a", "1", image("x:3"))),
	} {
		require.NoError(t, q.Push(t.Context(), u))
	}
	require.Equal(t, 1, q.Len())
	require.Equal(t, "x:3", drain(q)[0].Pods[0].Spec.Containers[0].Image)
}

func TestQueueRefusesInvalidUpdates(t *testing.T) {
	q := podconfig.NewQueue()
	for _, u := range []podconfig.Update{
		{}, update(0), update(opReconcile + 1), from("", update(opAdd)), update(opAdd, pod("a", "1"), nil),
	} {
		require.ErrorIs(t, q.Push(t.Context(), u), podconfig.ErrInvalidUpdate)
	}
	require.Zero(t, q.Len())
}

func TestQueueAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := podconfig.NewQueue()
		ctx, cancel := context.WithCancel(t.Context())
		var got []podconfig.Update
		done := make(chan struct{})
		go func() {
			defer close(done)
			for u := range q.All(ctx) {
				got = append(got, u)
			}
		}()
		synctest.Wait()
		require.NoError(t, q.Push(t.Context(), update(opAdd, pod("a", "1"))))
		synctest.Wait()
		require.NoError(t, q.Push(t.Context(), update(opUpdate, pod("a", "1"))))
		synctest.Wait()
		require.Equal(t, "ADD[a/1] UPDATE[a/1]", brief(got), "it waits for what comes")

		cancel()
		<-done
		require.NoError(t, q.Push(ctx, update(opUpdate, pod("b", "2"))), "Push does not look at ctx")
		for range q.All(ctx) {
			require.Fail(t, "ctx has ended")
		}
		require.Equal(t, 1, q.Len())
		for range q.All(t.Context()) {
			break
		}
		require.Zero(t, q.Len())
	})
}

// TestQueueReady expects a value for every pending update; a value may stand for several updates.
func TestQueueReady(t *testing.T) {
	q := podconfig.NewQueue()
	for range 3 {
		for i := range 3 {
			require.NoError(t, q.Push(t.Context(), from(fmt.Sprint(i), update(opUpdate, pod("a", "1")))))
		}
		require.Len(t, q.Ready(), 1)
		<-q.Ready()
		require.Len(t, drain(q), 3)
		require.Empty(t, q.Ready())
	}
}

// TestQueueSeveralConsumers expects that no consumer sleeps while updates are pending.
func TestQueueSeveralConsumers(t *testing.T) {
	const consumers, rounds = 3, 100
	synctest.Test(t, func(t *testing.T) {
		q := podconfig.NewQueue()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var seen atomic.Int32
		release := make(chan struct{})
		for range consumers {
			wg.Go(func() {
				for range q.All(ctx) {
					seen.Add(1)
					<-release
				}
			})
		}
		for range rounds {
			synctest.Wait()
			for i := range consumers {
				// A different source each, so that the updates are not combined.
				require.NoError(t, q.Push(ctx, from(fmt.Sprint(i), update(opUpdate, pod("a", "1")))))
			}
			synctest.Wait()
			require.EqualValues(t, consumers, seen.Swap(0))
			for range consumers {
				release <- struct{}{}
			}
		}
		cancel()
		wg.Wait()
	})
}

// gated is a context whose Done method waits. A loop of Queue.All calls Done after it has found the
// queue empty, and before it waits.
type gated struct {
	context.Context
	open chan struct{}
}

func (g gated) Done() <-chan struct{} {
	<-g.open
	return g.Context.Done()
}

// TestQueueAllBetweenLookAndWait pushes two updates while two loops have found the queue empty and do
// not wait yet. Each loop receives an update, although the other loop is busy with its own.
func TestQueueAllBetweenLookAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := podconfig.NewQueue()
		ctx, cancel := context.WithCancel(t.Context())
		g := gated{Context: ctx, open: make(chan struct{})}
		var wg sync.WaitGroup
		var seen atomic.Int32
		for range 2 {
			wg.Go(func() {
				for range q.All(g) {
					seen.Add(1)
					<-ctx.Done()
				}
			})
		}
		synctest.Wait()
		for _, source := range []string{"api", "file"} {
			require.NoError(t, q.Push(ctx, from(source, update(opUpdate, pod("a", "1")))))
		}
		close(g.open)
		synctest.Wait()
		require.EqualValues(t, 2, seen.Load())
		cancel()
		wg.Wait()
	})
}

// TestQueueAllEndsBesideAnother ends a loop at the instant of a push. The other loop receives the update.
func TestQueueAllEndsBesideAnother(t *testing.T) {
	for range 100 { // the loop finds its end or the update by chance
		synctest.Test(t, func(t *testing.T) {
			q := podconfig.NewQueue()
			ctx, cancel := context.WithCancel(t.Context())
			ending := gated{Context: ctx, open: make(chan struct{})}
			other := gated{Context: t.Context(), open: make(chan struct{})}
			seen := 0
			go func() {
				for range q.All(other) {
					seen++
					return
				}
			}()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range q.All(ending) {
					assert.Fail(t, "ctx has ended")
				}
			}()
			synctest.Wait()
			require.NoError(t, q.Push(ctx, update(opUpdate, pod("a", "1"))))
			cancel()
			close(ending.open)
			<-ended
			close(other.open)
			synctest.Wait()
			require.Equal(t, 1, seen)
		})
	}
}
