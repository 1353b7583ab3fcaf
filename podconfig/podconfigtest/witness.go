// SPDX-License-Identifier: Apache-2.0

package podconfigtest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// witness records the pods sent and received in the steps of a case.
type witness struct {
	// objects are the caller's pods. The same object is sent for a UID every time, like in a
	// program that edits its pods in place.
	objects map[types.UID]*v1.Pod
	// held is the last version of each pod sent by a source.
	held map[key]*v1.Pod
	// local are the local annotations of each received pod.
	local map[key]map[string]string
}

type key struct {
	source string
	uid    types.UID
}

func newWitness() *witness {
	return &witness{objects: map[types.UID]*v1.Pod{}, held: map[key]*v1.Pod{}, local: map[key]map[string]string{}}
}

// copyChange returns a copy of the change with the caller's objects.
func (w *witness) copyChange(c podconfig.Change) podconfig.Change {
	var pods []*v1.Pod
	inUse := map[types.UID]bool{}
	for _, p := range c.Pods() {
		if p == nil || p.UID == "" || inUse[p.UID] {
			pods = append(pods, p.DeepCopy())
			continue
		}
		inUse[p.UID] = true
		if w.objects[p.UID] == nil {
			w.objects[p.UID] = &v1.Pod{}
		}
		p.DeepCopyInto(w.objects[p.UID])
		pods = append(pods, w.objects[p.UID])
	}
	switch c.Kind() {
	case podconfig.ChangeSnapshot:
		return podconfig.Snapshot(pods...)
	case podconfig.ChangeUpsert:
		return podconfig.Upsert(pods...)
	case podconfig.ChangeRemove:
		return podconfig.Remove(slices.Clone(c.UIDs())...)
	}
	return podconfig.Change{}
}

// unedited returns an error if the Merger edited the sent pods.
func unedited(original, sent podconfig.Change) error {
	for i, p := range sent.Pods() {
		if !reflect.DeepEqual(p, original.Pods()[i]) {
			return fmt.Errorf("the caller's pod %s was edited", nameAndUID(original.Pods()[i]))
		}
	}
	return nil
}

// accepted returns the accepted pods of a step: the first of several with the same name or UID.
func accepted(s Step) map[key]*v1.Pod {
	pods, names := map[key]*v1.Pod{}, map[string]bool{}
	for _, p := range s.Change.Pods() {
		if p == nil || p.UID == "" || names[podconfig.FullName(p)] || pods[key{s.Source, p.UID}] != nil {
			continue
		}
		names[podconfig.FullName(p)] = true
		pods[key{s.Source, p.UID}] = p
	}
	return pods
}

// check compares the pods of the updates with the pods sent in this step or, for removed pods,
// earlier.
func (w *witness) check(s Step, updates []podconfig.Update) error {
	sent := accepted(s)
	for _, u := range updates {
		if u.Source != s.Source {
			return fmt.Errorf("the %s is of source %q", u.Op, u.Source)
		}
		for _, p := range u.Pods {
			k := key{s.Source, p.UID}
			want := sent[k]
			if u.Op == podconfig.OpRemove {
				want = w.held[k]
			}
			if err := w.checkPod(u.Op, k, want, p); err != nil {
				return fmt.Errorf("%s of pod %s: %w", u.Op, nameAndUID(p), err)
			}
		}
	}
	maps.Copy(w.held, sent)
	for k, p := range sent {
		w.expectMirror(k, p)
	}
	return nil
}

// expectMirror records a mirror annotation sent without an update. Later updates must contain it.
func (w *witness) expectMirror(k key, p *v1.Pod) {
	value, ok := p.Annotations[podconfig.AnnotationMirror]
	if _, known := w.local[k][podconfig.AnnotationMirror]; ok && !known && w.local[k] != nil {
		w.local[k][podconfig.AnnotationMirror] = value
	}
}

func (w *witness) checkPod(op podconfig.Op, k key, want, got *v1.Pod) error {
	if want == nil {
		return errors.New("the source never sent the pod")
	}
	if op == podconfig.OpAdd {
		delete(w.local, k)
	}
	if err := w.checkLocal(k, got); err != nil {
		return err
	}
	return checkContent(want, got)
}

// firstSeenLayout is the kubelet's format: RFC 3339 with nine fractional digits.
const firstSeenLayout = "2006-01-02T15:04:05.000000000Z07:00"

func (w *witness) checkLocal(k key, p *v1.Pod) error {
	got := localOf(p)
	if got[podconfig.AnnotationSource] != k.source {
		return fmt.Errorf("annotation %s must be %q, it is %q", podconfig.AnnotationSource, k.source, got[podconfig.AnnotationSource])
	}
	seen, err := time.Parse(firstSeenLayout, got[podconfig.AnnotationFirstSeen])
	if err != nil || seen.Format(firstSeenLayout) != got[podconfig.AnnotationFirstSeen] {
		return fmt.Errorf("annotation %s must be a time with nine digits, it is %q", podconfig.AnnotationFirstSeen, got[podconfig.AnnotationFirstSeen])
	}
	for name, was := range w.local[k] {
		if is, ok := got[name]; !ok || is != was {
			return fmt.Errorf("annotation %s must stay %q, it is %q", name, was, is)
		}
	}
	w.local[k] = got
	return nil
}

func localOf(p *v1.Pod) map[string]string {
	local := map[string]string{}
	for _, name := range []string{podconfig.AnnotationSource, podconfig.AnnotationFirstSeen, podconfig.AnnotationMirror} {
		if value, ok := p.Annotations[name]; ok {
			local[name] = value
		}
	}
	return local
}

// checkContent compares all but the local annotations.
func checkContent(want, got *v1.Pod) error {
	w, g := withoutLocal(want), withoutLocal(got)
	switch {
	case !equality.Semantic.DeepEqual(w.Spec, g.Spec):
		return errors.New("the spec is not what the source sent last")
	case !equality.Semantic.DeepEqual(w.Status, g.Status):
		return errors.New("the status is not what the source sent last")
	case !equality.Semantic.DeepEqual(w.ObjectMeta, g.ObjectMeta):
		return errors.New("the metadata is not what the source sent last")
	}
	return nil
}

func withoutLocal(p *v1.Pod) *v1.Pod {
	q := p.DeepCopy()
	maps.DeleteFunc(q.Annotations, func(name, _ string) bool {
		return name == podconfig.AnnotationSource || name == podconfig.AnnotationFirstSeen || name == podconfig.AnnotationMirror
	})
	return q
}

// ruin modifies the pods of the updates and of the change, as their owners may do.
func ruin(updates []podconfig.Update, sent podconfig.Change) {
	pods := slices.Clone(sent.Pods())
	for _, u := range updates {
		pods = append(pods, u.Pods...)
	}
	for _, p := range pods {
		if p == nil {
			continue
		}
		for name := range p.Annotations {
			p.Annotations[name] = "ruined"
		}
		for name := range p.Labels {
			p.Labels[name] = "ruined"
		}
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Image = "ruined"
		}
		if p.DeletionTimestamp != nil {
			p.DeletionTimestamp.Time = p.DeletionTimestamp.AddDate(1, 0, 0)
			*p.DeletionGracePeriodSeconds = 99
		}
		p.Name, p.UID, p.Status.Phase = "ruined", "ruined", "Ruined"
	}
}
