// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// model is a second, simple and slow implementation of Store.Merge for comparison: slices that are
// searched from the front and rebuilt with every change.
type model struct {
	pods map[string][]held // by source, in order of arrival
	seen map[string]bool
}

type held struct {
	told
	since int64 // Unix time in nanoseconds
}

// line is an operation on a pod in comparable form.
type line struct {
	op     podconfig.Op
	source string
	pod    held
}

// reply is the complete result of a Merge.
type reply struct {
	lines []line
	// empty is set if there was an empty ADD, after the given number of lines.
	empty    bool
	position int
	synced   bool
	rejected []string
}

func newModel() *model {
	return &model{pods: map[string][]held{}, seen: map[string]bool{}}
}

func (m *model) merge(s step, now int64) reply {
	var r reply
	batch := m.filter(s, &r)
	before := m.pods[s.source]
	var removed, after []held
	for _, old := range before {
		if m.survives(old, s, batch) {
			after = append(after, old)
		} else {
			removed = append(removed, old)
		}
	}
	if s.kind != podconfig.ChangeSnapshot {
		slices.SortStableFunc(removed, byReason(s, batch))
	}
	lines := map[podconfig.Op][]line{}
	say := func(op podconfig.Op, p held) { lines[op] = append(lines[op], line{op, s.source, p}) }
	for _, p := range removed {
		say(podconfig.OpRemove, p)
	}
	for _, in := range batch {
		i := slices.IndexFunc(after, func(h held) bool { return h.uid == in.uid })
		if i < 0 {
			after = append(after, held{in, now})
			say(podconfig.OpAdd, held{in, now})
			r.rejected = append(r.rejected, m.conflicts(s.source, in)...)
			continue
		}
		old := after[i]
		after[i] = held{in, old.since}
		switch {
		case old.label != in.label || old.deleting != in.deleting:
			if in.deleting > 0 {
				say(podconfig.OpDelete, after[i])
			} else {
				say(podconfig.OpUpdate, after[i])
			}
		case old.status != in.status:
			say(podconfig.OpReconcile, after[i])
		}
	}
	m.pods[s.source] = after
	m.answer(s, lines, &r)
	return r
}

// filter returns the pods of the batch without pods whose name or UID appeared earlier in the
// batch.
func (m *model) filter(s step, r *reply) []told {
	var batch []told
	for _, p := range s.pods {
		p.spelling = 0
		if slices.ContainsFunc(batch, func(q told) bool { return q.name == p.name }) {
			r.rejected = append(r.rejected, "name "+p.uid)
		} else if slices.ContainsFunc(batch, func(q told) bool { return q.uid == p.uid }) {
			r.rejected = append(r.rejected, "uid "+p.uid)
		} else {
			batch = append(batch, p)
		}
	}
	return batch
}

func (m *model) survives(old held, s step, batch []told) bool {
	if slices.Contains(s.uids, types.UID(old.uid)) {
		return false
	}
	listed := false
	for _, p := range batch {
		if (p.uid == old.uid) != (p.name == old.name) {
			return false
		}
		listed = listed || p.uid == old.uid
	}
	return listed || s.kind != podconfig.ChangeSnapshot
}

// byReason sorts the removed pods of a delta by the position of the cause: the UID, or the pod that
// took the name. A pod that lost its own name precedes the pod whose name it took.
func byReason(s step, batch []told) func(a, b held) int {
	rank := func(h held) int {
		if i := slices.Index(s.uids, types.UID(h.uid)); i >= 0 {
			return 2 * i
		}
		for i, p := range batch {
			if p.uid == h.uid && p.name != h.name {
				return 2 * i
			}
			if p.name == h.name && p.uid != h.uid {
				return 2*i + 1
			}
		}
		return -1
	}
	return func(a, b held) int { return rank(a) - rank(b) }
}

func (m *model) conflicts(source string, in told) []string {
	var out []string
	for other, pods := range m.pods {
		for _, p := range pods {
			if other != source && (p.uid == in.uid || p.name == in.name) {
				out = append(out, "conflict "+in.uid)
				break
			}
		}
	}
	return out
}

func (m *model) answer(s step, lines map[podconfig.Op][]line, r *reply) {
	const (
		add, update, del = podconfig.OpAdd, podconfig.OpUpdate, podconfig.OpDelete
		remove, other    = podconfig.OpRemove, podconfig.OpReconcile
	)
	r.lines = slices.Concat(lines[remove], lines[add], lines[update], lines[del])
	if s.kind == podconfig.ChangeSnapshot && !m.seen[s.source] {
		m.seen[s.source] = true
		r.synced = true
		r.empty = len(r.lines) == len(lines[remove])
		if r.empty {
			r.position = len(r.lines)
		}
	}
	r.lines = append(r.lines, lines[other]...)
}

// hear converts the result of Merge to a reply.
func hear(updates []podconfig.Update, rejected []string) (reply, error) {
	r := reply{rejected: rejected}
	for i, u := range updates {
		if len(u.Pods) == 0 {
			if u.Op != podconfig.OpAdd || r.empty {
				return r, fmt.Errorf("%s without pods", u.Op)
			}
			r.empty, r.position = true, len(r.lines)
		}
		if u.Synced {
			if i != len(updates)-1 {
				return r, fmt.Errorf("synced in the middle")
			}
			r.synced = true
		}
		for _, p := range u.Pods {
			r.lines = append(r.lines, line{u.Op, u.Source, hold(p)})
		}
	}
	return r, nil
}

func hold(p *v1.Pod) held {
	since, _ := podconfig.FirstSeen(p)
	return held{read(p), since.UnixNano()}
}
