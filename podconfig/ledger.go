// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ledger is what one source holds, and the decisions about what its changes mean.
//
// Invariant: a stored pod is never edited; a change replaces it, sharing the parts that stayed. So stored pods may be
// read without a lock.
// Invariant: names is the inverse of pods: each name belongs to one UID and each UID to one name.
type ledger struct {
	source string
	seen   bool
	pods   ordered[types.UID, record]
	names  map[podName]types.UID
}

type record struct {
	pod *v1.Pod
	// version is the resourceVersion at which an API server told about exactly this pod, else empty.
	version string
}

func newLedger(source string) *ledger {
	return &ledger{source: source, names: make(map[podName]types.UID)}
}

// seed stores pods of a former life. They prove no version, for the checkpoint may have been made of other data.
func (l *ledger) seed(pods []*v1.Pod, now time.Time) {
	for _, in := range pods {
		p := l.enter(in, now)
		if _, ok := FirstSeen(in); ok {
			p.Annotations[AnnotationFirstSeen] = in.Annotations[AnnotationFirstSeen]
		}
		l.put(p, "")
	}
}

// apply takes one change in. Its pods must have passed filter.
func (l *ledger) apply(kind ChangeKind, pods []*v1.Pod, uids []types.UID, now time.Time) *outcome {
	o := &outcome{}
	switch kind {
	case ChangeSnapshot:
		o.first = !l.seen
		l.seen = true
		l.dropAbsent(pods, o)
	case ChangeUpsert:
		l.dropDisplaced(pods, o)
	case ChangeRemove:
		for _, uid := range uids {
			l.drop(uid, o)
		}
	}
	for _, in := range pods {
		l.take(in, kind, now, o)
	}
	return o
}

// dropAbsent removes, in order of arrival, each stored pod that is not in the snapshot under its UID and name.
func (l *ledger) dropAbsent(pods []*v1.Pod, o *outcome) {
	present := make(map[types.UID]podName, len(pods))
	for _, in := range pods {
		present[in.UID] = nameOf(in)
	}
	for uid, r := range l.pods.all() {
		if name, ok := present[uid]; !ok || name != nameOf(r.pod) {
			l.drop(uid, o)
		}
	}
}

// dropDisplaced removes what the pods of a delta make impossible: their own former names, and other UIDs of theirs.
func (l *ledger) dropDisplaced(pods []*v1.Pod, o *outcome) {
	for _, in := range pods {
		if r, known := l.pods.get(in.UID); known && nameOf(r.pod) != nameOf(in) {
			l.drop(in.UID, o)
		}
		if holder, held := l.names[nameOf(in)]; held && holder != in.UID {
			l.drop(holder, o)
		}
	}
}

func (l *ledger) drop(uid types.UID, o *outcome) {
	r, known := l.pods.get(uid)
	if !known {
		return
	}
	l.pods.remove(uid)
	delete(l.names, nameOf(r.pod))
	o.removed = append(o.removed, r.pod)
}

func (l *ledger) put(p *v1.Pod, version string) {
	l.pods.set(p.UID, record{pod: p, version: version})
	l.names[nameOf(p)] = p.UID
}

// take stores one pod and sorts it into the outcome.
func (l *ledger) take(in *v1.Pod, kind ChangeKind, now time.Time, o *outcome) {
	version := l.versionOf(in)
	r, known := l.pods.get(in.UID)
	if !known {
		p := l.enter(in, now)
		l.put(p, version)
		o.added = append(o.added, p)
		return
	}
	if kind == ChangeSnapshot && version != "" && version == r.version {
		return
	}
	c := compare(r.pod, in)
	if c == (comparison{}) {
		l.put(r.pod, version)
		return
	}
	p := succeed(r.pod, in, c)
	l.put(p, version)
	switch {
	case c.meta == different || c.spec:
		if p.DeletionTimestamp != nil {
			o.deleted = append(o.deleted, p)
		} else {
			o.updated = append(o.updated, p)
		}
	case c.status:
		o.reconciled = append(o.reconciled, p)
	}
}

// versionOf returns the resourceVersion if it proves something. Only an API server's does: a manifest that was made with
// "kubectl get -o yaml" carries one as well, and keeps it however often it is edited.
func (l *ledger) versionOf(in *v1.Pod) string {
	if l.source != SourceAPI {
		return ""
	}
	return in.ResourceVersion
}

// enter returns the private copy of a pod that is new to the source.
func (l *ledger) enter(in *v1.Pod, now time.Time) *v1.Pod {
	p := in.DeepCopy()
	if p.Annotations == nil {
		p.Annotations = make(map[string]string, 2)
	}
	p.Annotations[AnnotationSource] = l.source
	p.Annotations[AnnotationFirstSeen] = now.Format(firstSeenLayout)
	return p
}

// succeed returns the private copy of a known pod that changed. Local annotations of the old one win; parts that did
// not change are shared with it.
func succeed(stored, in *v1.Pod, c comparison) *v1.Pod {
	p := &v1.Pod{TypeMeta: in.TypeMeta, Spec: stored.Spec, Status: stored.Status}
	in.ObjectMeta.DeepCopyInto(&p.ObjectMeta)
	if p.Annotations == nil {
		p.Annotations = make(map[string]string, 2)
	}
	for _, key := range [...]string{AnnotationSource, AnnotationFirstSeen, AnnotationMirror} {
		if value, ok := stored.Annotations[key]; ok {
			p.Annotations[key] = value
		}
	}
	if c.spec {
		in.Spec.DeepCopyInto(&p.Spec)
	}
	if c.status {
		in.Status.DeepCopyInto(&p.Status)
	}
	return p
}
