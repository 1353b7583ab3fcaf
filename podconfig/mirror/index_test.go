// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

// model is a simple index: a list searched from its end.
type model []*v1.Pod

func (m model) put(p *v1.Pod) model {
	i := slices.IndexFunc(m, func(q *v1.Pod) bool { return q.UID == p.UID })
	if i >= 0 && podconfig.FullName(m[i]) == podconfig.FullName(p) && podconfig.IsMirror(m[i]) == podconfig.IsMirror(p) {
		m[i] = p
		return m
	}
	return append(m.remove(p.UID), p)
}

func (m model) remove(uid types.UID) model {
	return slices.DeleteFunc(m, func(q *v1.Pod) bool { return q.UID == uid })
}

func (m model) find(mirror bool, ok func(*v1.Pod) bool) *v1.Pod {
	for _, p := range slices.Backward(m) {
		if podconfig.IsMirror(p) == mirror && ok(p) {
			return p
		}
	}
	return nil
}

func (m model) named(mirror bool, name string) *v1.Pod {
	return m.find(mirror, func(p *v1.Pod) bool { return p.Name == name })
}

func (m model) only(ok func(*v1.Pod) bool) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range m {
		if ok(p) {
			out = append(out, p)
		}
	}
	return out
}

func isNoMirror(p *v1.Pod) bool { return !podconfig.IsMirror(p) }

// TestIndexIsItsModel compares every answer after each of many random steps.
func TestIndexIsItsModel(t *testing.T) {
	names, uids := []string{"a", "b", "c"}, []types.UID{"1", "2", "3", "4", "5"}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		x, m := mirror.NewIndex(), model{}
		for range 50 {
			name, uid := names[rng.IntN(len(names))], uids[rng.IntN(len(uids))]
			switch p := static(name, uid, "h"); rng.IntN(5) {
			case 0, 1:
				x.Remove(uid)
				m = m.remove(uid)
			case 2:
				p = mirrorPod(name, uid, "h")
				x.Put(p)
				m = m.put(p)
			case 3:
				p = plain(name, uid)
				x.Put(p)
				m = m.put(p)
			default:
				x.Put(p)
				m = m.put(p)
			}
			requireModel(t, x, m, names, uids)
		}
	}
}

func requireModel(t *testing.T, x *mirror.Index, m model, names []string, uids []types.UID) {
	t.Helper()
	require.Equal(t, m.only(isNoMirror), slices.Collect(x.Pods()))
	require.Equal(t, m.only(podconfig.IsMirror), slices.Collect(x.Mirrors()))
	require.Equal(t, m.only(func(p *v1.Pod) bool { return podconfig.IsMirror(p) && m.named(false, p.Name) == nil }),
		slices.Collect(x.Orphans()))
	for _, name := range names {
		p, ok := x.ByName("ns", name)
		require.Same(t, m.named(false, name), p)
		require.Equal(t, p != nil, ok)
		pod, mir := x.Pair(static(name, "unknown", "h"))
		require.Equal(t, types.UID("unknown"), pod.UID)
		require.Same(t, m.named(true, name), mir)
		pod, mir = x.Pair(mirrorPod(name, "unknown", "h"))
		require.Same(t, m.named(false, name), pod)
		require.Equal(t, types.UID("unknown"), mir.UID)
	}
	for _, uid := range uids {
		p, ok := x.Get(uid)
		require.Same(t, m.find(false, func(p *v1.Pod) bool { return p.UID == uid }), p)
		require.Equal(t, p != nil, ok)
		want := uid
		if mir := m.find(true, func(p *v1.Pod) bool { return p.UID == uid }); mir != nil && m.named(false, mir.Name) != nil {
			want = m.named(false, mir.Name).UID
		}
		require.Equal(t, want, x.Translate(uid))
	}
	mirrorOf, staticOf := map[types.UID]types.UID{}, map[types.UID]types.UID{}
	var statics []*v1.Pod
	for _, p := range m {
		switch {
		case podconfig.IsMirror(p):
			if x.Translate(p.UID) != p.UID {
				staticOf[p.UID] = x.Translate(p.UID)
			}
		case podconfig.IsStatic(p):
			statics = append(statics, p)
			mirrorOf[p.UID] = ""
			if mir := m.named(true, p.Name); mir != nil {
				mirrorOf[p.UID] = mir.UID
			}
		}
	}
	gotMirrorOf, gotStaticOf := x.Translations()
	require.Equal(t, mirrorOf, gotMirrorOf)
	require.Equal(t, staticOf, gotStaticOf)
	var got []*v1.Pod
	for s, mir := range x.Statics() {
		require.Same(t, m.named(true, s.Name), mir)
		got = append(got, s)
	}
	require.Equal(t, statics, got)
}

func TestIndexOfNothing(t *testing.T) {
	x := mirror.NewIndex()
	require.Empty(t, x.Translate(""))
	x.Remove("1")
	require.Empty(t, slices.Collect(x.Pods()))
}

// TestIndexMayBeCalledFromItsLoops expects that no iterator holds a lock while it yields.
func TestIndexMayBeCalledFromItsLoops(t *testing.T) {
	x := mirror.NewIndex()
	for _, uid := range []types.UID{"1", "2", "3"} {
		x.Put(static("a"+string(uid), uid, "h"))
	}
	n := 0
	for p := range x.Pods() {
		x.Remove(p.UID)
		if n++; n == 2 {
			break
		}
	}
	for s := range x.Statics() {
		x.Remove(s.UID)
		n++
		break
	}
	require.Equal(t, 3, n)
	require.Empty(t, slices.Collect(x.Pods()))
}

func TestApplyTellsWhatToRun(t *testing.T) {
	x := mirror.NewIndex()
	apply := func(op podconfig.Op, pods ...*v1.Pod) (own, touched []types.UID) {
		p, s := x.Apply(podconfig.Update{Op: op, Pods: pods})
		return uidsOf(p), uidsOf(s)
	}
	tests := []struct {
		name         string
		op           podconfig.Op
		pods         []*v1.Pod
		own, touched []types.UID
	}{
		{"a mirror of no pod", podconfig.OpAdd, []*v1.Pod{mirrorPod("a", "m1", "h")}, nil, nil},
		{"a static pod", podconfig.OpAdd, []*v1.Pod{static("a", "s1", "h")}, []types.UID{"s1"}, nil},
		{"its mirror changes, beside another pod", podconfig.OpReconcile, []*v1.Pod{mirrorPod("a", "m1", "h"), plain("p", "p1")},
			[]types.UID{"p1"}, []types.UID{"s1"}},
		{"its mirror is being deleted", podconfig.OpDelete, []*v1.Pod{mirrorPod("a", "m1", "h")}, nil, []types.UID{"s1"}},
		{"its mirror is gone", podconfig.OpRemove, []*v1.Pod{mirrorPod("a", "m1", "h")}, nil, []types.UID{"s1"}},
		{"two mirrors of it", podconfig.OpAdd, []*v1.Pod{mirrorPod("a", "m2", "h"), mirrorPod("a", "m3", "h")}, nil, []types.UID{"s1"}},
		{"it is gone", podconfig.OpRemove, []*v1.Pod{static("a", "s1", "h")}, []types.UID{"s1"}, nil},
		{"a source is ready", podconfig.OpAdd, nil, nil, nil},
	}
	for _, tc := range tests {
		own, touched := apply(tc.op, tc.pods...)
		require.Equal(t, tc.own, own, tc.name)
		require.Equal(t, tc.touched, touched, tc.name)
	}
	require.Equal(t, []types.UID{"m2", "m3"}, uidsOf(slices.Collect(x.Orphans())))
}

func uidsOf(pods []*v1.Pod) []types.UID {
	var out []types.UID
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}
