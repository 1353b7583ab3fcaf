// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// likeness tells how a part of an incoming pod relates to the stored one.
type likeness uint8

const (
	// identical: nothing to store.
	identical likeness = iota
	// equivalent: written otherwise but of the same meaning to a consumer. Worth storing, not worth telling.
	equivalent
	// different: worth telling.
	different
)

// comparison is the likeness of the three parts of a pod.
type comparison struct {
	meta, spec, status likeness
}

// compare relates an incoming pod to the stored one of the same UID and name. Once one part is known to differ, the
// later ones are not confirmed, for it is an update anyway.
func compare(stored, in *v1.Pod) comparison {
	c := comparison{meta: compareMeta(&stored.ObjectMeta, &in.ObjectMeta)}
	if c.meta == identical && stored.TypeMeta != in.TypeMeta {
		c.meta = equivalent
	}
	c.spec = glance(&stored.Spec, &in.Spec)
	if c.spec == different && c.meta != different {
		c.spec = confirm(&stored.Spec, &in.Spec)
	}
	c.status = glance(&stored.Status, &in.Status)
	if c.status == different && c.meta != different && c.spec != different {
		c.status = confirm(&stored.Status, &in.Status)
	}
	return c
}

// glance sees every difference, and some that are none. It is many times faster than confirm.
func glance[T any](stored, in *T) likeness {
	if reflect.DeepEqual(stored, in) {
		return identical
	}
	return different
}

// confirm tells a difference from another spelling: nil is empty, 1000m is 1, and a time is the same in every zone.
func confirm[T any](stored, in *T) likeness {
	if equality.Semantic.DeepEqual(stored, in) {
		return equivalent
	}
	return different
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
		return equivalent
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
	return reflect.DeepEqual(&stored, &in)
}
