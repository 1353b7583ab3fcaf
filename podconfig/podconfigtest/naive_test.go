// SPDX-License-Identifier: Apache-2.0

package podconfigtest_test

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/podconfig"
)

// naive is a second, simple Merger: lists that are searched from the front, and copies of
// everything. Each fault breaks a single behaviour.
type naive struct {
	fault fault
	pods  map[string][]*v1.Pod
	seen  map[string]bool
}

func newNaive(f fault) *naive {
	return &naive{fault: f, pods: map[string][]*v1.Pod{}, seen: map[string]bool{}}
}

func (n *naive) Merge(_ context.Context, source string, c podconfig.Change) ([]podconfig.Update, error) {
	if n.fault != noErrors && source == "" {
		return nil, podconfig.ErrNoSource
	}
	if n.fault != noErrors && c.Kind() == 0 {
		return nil, podconfig.ErrUnknownChange
	}
	before, batch := n.pods[source], n.filter(c.Pods())
	said := map[podconfig.Op][]*v1.Pod{}
	after := slices.DeleteFunc(slices.Clone(before), func(p *v1.Pod) bool { return n.leaves(p, c, batch) })
	said[podconfig.OpRemove] = removed(before, after, c, batch)
	for _, in := range batch {
		i := slices.IndexFunc(after, func(p *v1.Pod) bool { return p.UID == in.UID })
		if i < 0 {
			p := n.enter(in, source)
			after = append(after, p)
			said[podconfig.OpAdd] = append(said[podconfig.OpAdd], p)
			continue
		}
		op, p := n.compare(after[i], in)
		after[i] = p
		if op != 0 {
			said[op] = append(said[op], p)
		}
	}
	n.pods[source] = after
	return n.answer(source, c, said), nil
}

func (n *naive) filter(pods []*v1.Pod) (batch []*v1.Pod) {
	for _, p := range pods {
		if p == nil || p.UID == "" || slices.ContainsFunc(batch, func(q *v1.Pod) bool {
			return n.fault != duplicateNames && q.Name == p.Name || n.fault != duplicateUIDs && q.UID == p.UID
		}) {
			continue
		}
		batch = append(batch, p)
	}
	if n.fault == lastWins {
		slices.Reverse(batch)
	}
	return batch
}

func (n *naive) leaves(p *v1.Pod, c podconfig.Change, batch []*v1.Pod) bool {
	present := slices.ContainsFunc(batch, func(q *v1.Pod) bool { return q.UID == p.UID && (q.Name == p.Name || n.fault == renamesUnnoticed) })
	if c.Kind() == podconfig.ChangeSnapshot {
		return !present
	}
	displaced := slices.ContainsFunc(batch, func(q *v1.Pod) bool {
		return n.fault != renamesUnnoticed && q.UID == p.UID && q.Name != p.Name || n.fault != namesakes && q.Name == p.Name && q.UID != p.UID
	})
	return displaced || slices.Contains(c.UIDs(), p.UID)
}

// removed returns the removed pods in the order to send.
func removed(before, after []*v1.Pod, c podconfig.Change, batch []*v1.Pod) (gone []*v1.Pod) {
	left := slices.DeleteFunc(slices.Clone(before), func(p *v1.Pod) bool { return slices.Contains(after, p) })
	take := func(match func(*v1.Pod) bool) {
		if i := slices.IndexFunc(left, match); i >= 0 {
			gone = append(gone, left[i])
			left = slices.Delete(left, i, i+1)
		}
	}
	if c.Kind() != podconfig.ChangeSnapshot {
		for _, uid := range c.UIDs() {
			take(func(p *v1.Pod) bool { return p.UID == uid })
		}
		for _, q := range batch {
			take(func(p *v1.Pod) bool { return p.UID == q.UID && p.Name != q.Name })
			take(func(p *v1.Pod) bool { return p.UID != q.UID && p.Name == q.Name })
		}
	}
	return append(gone, left...)
}

const layout = "2006-01-02T15:04:05.000000000Z07:00"

func (n *naive) enter(in *v1.Pod, source string) *v1.Pod {
	p := in
	switch n.fault {
	case editsInput:
	case keepsInput:
		shallow := *in
		p = &shallow
		p.Annotations = maps.Clone(in.Annotations)
	default:
		p = in.DeepCopy()
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[podconfig.AnnotationSource] = source
	p.Annotations[podconfig.AnnotationFirstSeen] = time.Now().Format(layout)
	if n.fault == shortTime {
		p.Annotations[podconfig.AnnotationFirstSeen] = time.Now().Format(time.RFC3339)
	}
	if n.fault == foreignSource && in.Annotations[podconfig.AnnotationSource] != "" {
		p.Annotations[podconfig.AnnotationSource] = in.Annotations[podconfig.AnnotationSource]
	}
	return p
}

var localKeys = []string{podconfig.AnnotationSource, podconfig.AnnotationFirstSeen, podconfig.AnnotationMirror}

// compare returns the operation for a difference, 0 if none is sent, and the pod to store.
func (n *naive) compare(old, in *v1.Pod) (podconfig.Op, *v1.Pod) {
	p := in.DeepCopy()
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	was := old.DeepCopy().Annotations
	for _, k := range localKeys {
		value, ok := was[k]
		if n.fault == forgetsMirror && k == podconfig.AnnotationMirror {
			ok = false
		}
		if ok {
			p.Annotations[k] = value
		} else if n.fault != hashIsLocal {
			was[k] = p.Annotations[k]
		}
	}
	if n.fault == newFirstSeen {
		p.Annotations[podconfig.AnnotationFirstSeen] = time.Now().Format(layout)
		was[podconfig.AnnotationFirstSeen] = p.Annotations[podconfig.AnnotationFirstSeen]
	}
	if n.fault == hashIsLocal {
		was[podconfig.AnnotationHash] = p.Annotations[podconfig.AnnotationHash]
	}
	same := equality.Semantic.DeepEqual
	if n.fault == rawEquality {
		same = func(a, b any) bool { return rawEqual(a, b) }
	}
	if _, mirror := p.Annotations[podconfig.AnnotationMirror]; !mirror {
		delete(was, podconfig.AnnotationMirror)
	}
	switch {
	case !same(old.Spec, p.Spec) || !same(old.Labels, p.Labels) || !same(was, p.Annotations) || !same(old.DeletionTimestamp, p.DeletionTimestamp) ||
		n.fault != graceIgnored && !same(old.DeletionGracePeriodSeconds, p.DeletionGracePeriodSeconds):
		if p.DeletionTimestamp != nil && n.fault != noDelete {
			return podconfig.OpDelete, p
		}
		return podconfig.OpUpdate, p
	case !same(old.Status, p.Status):
		if n.fault == noReconcile {
			return 0, p
		}
		return podconfig.OpReconcile, p
	}
	if n.fault == staleMetadata {
		return 0, old
	}
	return 0, p
}

func (n *naive) answer(source string, c podconfig.Change, said map[podconfig.Op][]*v1.Pod) (out []podconfig.Update) {
	order := []podconfig.Op{podconfig.OpRemove, podconfig.OpAdd, podconfig.OpUpdate, podconfig.OpDelete, podconfig.OpReconcile}
	if n.fault == removeLast {
		order = append(order[1:], order[0])
	}
	first := c.Kind() == podconfig.ChangeSnapshot && !n.seen[source] || n.fault == deltasMakeReady && !n.seen[source]
	n.seen[source] = n.seen[source] || first
	needsEmpty := first && len(said[podconfig.OpAdd])+len(said[podconfig.OpUpdate])+len(said[podconfig.OpDelete]) == 0 && n.fault != noEmptyAdd
	for _, op := range order {
		if op == podconfig.OpReconcile && needsEmpty {
			out = append(out, podconfig.Update{Op: podconfig.OpAdd, Source: source})
		}
		if len(said[op]) == 0 {
			continue
		}
		u := podconfig.Update{Op: op, Source: source}
		for _, p := range said[op] {
			if n.fault != sharesOutput {
				p = p.DeepCopy()
			}
			u.Pods = append(u.Pods, p)
		}
		out = append(out, u)
	}
	if first && len(out) > 0 {
		at := len(out) - 1
		if n.fault == syncedEarly {
			at = 0
		}
		out[at].Synced = n.fault != neverSynced
	}
	return out
}
