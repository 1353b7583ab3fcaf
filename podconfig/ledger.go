// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ledger holds the pods of a source, and decides the operations for each change.
//
// Invariant: a stored pod is never edited. A change replaces the pod, sharing unchanged parts, so
// that stored pods may be read without a lock. Invariant: names is the inverse of pods: each name
// belongs to a single UID and each UID to a single name.
type ledger struct {
	source string
	seen   bool
	pods   ordered[types.UID, record]
	names  map[podName]types.UID
}

type record struct {
	pod *v1.Pod
	// version is the resourceVersion under which an API server sent exactly this pod, else empty.
	version string
}

func newLedger(source string) *ledger {
	return &ledger{source: source, names: make(map[podName]types.UID)}
}

// seed stores pods of an earlier process, without a version: the resource versions in a checkpoint may
// be of an API server with other data.
func (l *ledger) seed(pods []*v1.Pod, now time.Time) {
	for _, in := range pods {
		p := l.newPod(in, Change{}, now)
		if _, ok := FirstSeen(in); ok {
			p.Annotations[AnnotationFirstSeen] = in.Annotations[AnnotationFirstSeen]
		}
		l.put(p, "")
	}
}

// apply applies a change. pods are the pods of c that have passed filter.
func (l *ledger) apply(c Change, pods []*v1.Pod, now time.Time) *outcome {
	o := &outcome{}
	switch c.kind {
	case ChangeSnapshot:
		o.first = !l.seen
		l.seen = true
		l.dropAbsent(pods, o)
	case ChangeUpsert:
		l.dropDisplaced(pods, o)
	case ChangeRemove:
		for _, uid := range c.uids {
			l.drop(uid, o)
		}
	}
	for _, in := range pods {
		l.storePod(in, c, now, o)
	}
	return o
}

// dropAbsent removes, in order of arrival, each stored pod without a pod of its UID and name in the
// snapshot.
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

// dropDisplaced removes stored pods that contradict the pods of a delta: pods with a former name,
// and pods of another UID with the same name.
func (l *ledger) dropDisplaced(pods []*v1.Pod, o *outcome) {
	for _, in := range pods {
		if r, known := l.pods.get(in.UID); known && nameOf(r.pod) != nameOf(in) {
			l.drop(in.UID, o)
		}
		if holder := l.names[nameOf(in)]; holder != in.UID {
			l.drop(holder, o) // no effect if the name is free
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

// storePod stores a pod and adds it to the outcome.
func (l *ledger) storePod(in *v1.Pod, from Change, now time.Time, o *outcome) {
	version := l.versionOf(in)
	r, known := l.pods.get(in.UID)
	if !known {
		p := l.newPod(in, from, now)
		l.put(p, version)
		o.added = append(o.added, p)
		return
	}
	if from.kind == ChangeSnapshot && version != "" && version == r.version {
		return
	}
	c := compare(r.pod, in)
	if c == (comparison{}) {
		l.put(r.pod, version)
		return
	}
	p := changedPod(r.pod, in, from, c)
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

// versionOf returns the resourceVersion of an API server's pod, else "". A manifest from "kubectl
// get -o yaml" has a resourceVersion as well, and keeps it across edits.
func (l *ledger) versionOf(in *v1.Pod) string {
	if l.source != SourceAPI {
		return ""
	}
	return in.ResourceVersion
}

// newPod returns the stored form of a pod new to the source.
func (l *ledger) newPod(in *v1.Pod, from Change, now time.Time) *v1.Pod {
	p := &v1.Pod{TypeMeta: in.TypeMeta, Spec: in.Spec, Status: in.Status}
	from.copyMeta(&in.ObjectMeta, p)
	if !from.given {
		in.Spec.DeepCopyInto(&p.Spec)
		in.Status.DeepCopyInto(&p.Status)
	}
	p.Annotations[AnnotationSource] = l.source
	p.Annotations[AnnotationFirstSeen] = now.Format(firstSeenLayout)
	return p
}

// changedPod returns the stored form of a known pod after a change. Local annotations keep their
// stored values. Unchanged parts are shared with the stored pod.
func changedPod(stored, in *v1.Pod, from Change, c comparison) *v1.Pod {
	p := &v1.Pod{TypeMeta: in.TypeMeta, Spec: stored.Spec, Status: stored.Status}
	from.copyMeta(&in.ObjectMeta, p)
	for _, key := range localKeys {
		if value, ok := stored.Annotations[key]; ok {
			p.Annotations[key] = value
		}
	}
	switch {
	case c.spec && from.given:
		p.Spec = in.Spec
	case c.spec:
		in.Spec.DeepCopyInto(&p.Spec)
	}
	switch {
	case c.status && from.given:
		p.Status = in.Status
	case c.status:
		in.Status.DeepCopyInto(&p.Status)
	}
	return p
}

// copyMeta sets the metadata of p to a copy of in. The annotations are always a map of p alone,
// because the ledger adds its own.
func (c Change) copyMeta(in *metav1.ObjectMeta, p *v1.Pod) {
	if !c.given {
		in.DeepCopyInto(&p.ObjectMeta)
	} else {
		p.ObjectMeta = *in
		p.Annotations = maps.Clone(in.Annotations)
	}
	if p.Annotations == nil {
		p.Annotations = make(map[string]string, 2)
	}
}
