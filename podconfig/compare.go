// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// comparison tells what in a pod changed.
type comparison struct {
	meta         likeness
	spec, status bool // changed
}

// likeness tells how incoming metadata relates to the stored one.
type likeness uint8

const (
	// identical: nothing to store.
	identical likeness = iota
	// trifling: only what no consumer is told about. Worth storing, not worth telling.
	trifling
	// different: worth telling.
	different
)

// compare relates an incoming pod to the stored one of the same UID and name.
func compare(stored, in *v1.Pod) comparison {
	c := comparison{
		meta:   compareMeta(&stored.ObjectMeta, &in.ObjectMeta),
		spec:   !same(&stored.Spec, &in.Spec),
		status: !same(&stored.Status, &in.Status),
	}
	if c.meta == identical && stored.TypeMeta != in.TypeMeta {
		c.meta = trifling
	}
	return c
}

// compareMeta counts labels, the deletion fields and annotations that are not local. Whatever else differs is merely
// stored.
func compareMeta(stored, in *metav1.ObjectMeta) likeness {
	switch {
	case !sameLabels(stored.Labels, in.Labels),
		!sameAnnotations(stored.Annotations, in.Annotations),
		!stored.DeletionTimestamp.Equal(in.DeletionTimestamp),
		!samePointee(stored.DeletionGracePeriodSeconds, in.DeletionGracePeriodSeconds):
		return different
	case becameMirror(stored.Annotations, in.Annotations), !sameBesidesAnnotations(*stored, *in):
		return trifling
	}
	return identical
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}

func sameAnnotations(a, b map[string]string) bool {
	return containsAnnotations(a, b) && containsAnnotations(b, a)
}

func containsAnnotations(whole, part map[string]string) bool {
	for key, value := range part {
		if isLocal(key) {
			continue
		}
		if other, ok := whole[key]; !ok || other != value {
			return false
		}
	}
	return true
}

func samePointee(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// becameMirror: a mirror annotation that is new to the pod is no difference, but sticks from now on.
func becameMirror(stored, in map[string]string) bool {
	_, was := stored[AnnotationMirror]
	_, is := in[AnnotationMirror]
	return is && !was
}

func sameBesidesAnnotations(stored, in metav1.ObjectMeta) bool {
	stored.Annotations, in.Annotations = nil, nil
	return same(&stored, &in)
}
