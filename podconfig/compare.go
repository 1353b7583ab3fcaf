// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/semantic"
)

// comparison holds the differences between two versions of a pod.
type comparison struct {
	meta         likeness
	spec, status bool // changed
}

// likeness is the relation between stored and incoming metadata.
type likeness uint8

const (
	// identical: no difference to store.
	identical likeness = iota
	// trifling: a difference to store, but not to report to consumers.
	trifling
	// different: a difference to store and report.
	different
)

// compare compares an incoming pod with the stored pod of the same UID and name.
func compare(stored, in *v1.Pod) comparison {
	c := comparison{
		meta:   compareMeta(&stored.ObjectMeta, &in.ObjectMeta),
		spec:   !semantic.Equal(&stored.Spec, &in.Spec),
		status: !semantic.Equal(&stored.Status, &in.Status),
	}
	if c.meta == identical && stored.TypeMeta != in.TypeMeta {
		c.meta = trifling
	}
	return c
}

// compareMeta reports differences in labels, the deletion fields and non-local annotations. All
// other differences are only stored.
func compareMeta(stored, in *metav1.ObjectMeta) likeness {
	switch {
	case !maps.Equal(stored.Labels, in.Labels),
		!containsAnnotations(stored.Annotations, in.Annotations), !containsAnnotations(in.Annotations, stored.Annotations),
		!stored.DeletionTimestamp.Equal(in.DeletionTimestamp),
		!semantic.Equal(&stored.DeletionGracePeriodSeconds, &in.DeletionGracePeriodSeconds):
		return different
	case becameMirror(stored.Annotations, in.Annotations), !semantic.EqualBut(stored, in, "Annotations"):
		return trifling
	}
	return identical
}

// containsAnnotations reports whether whole has the annotations of part that the agent does not own.
func containsAnnotations(whole, part map[string]string) bool {
	for key, value := range part {
		if slices.Contains(localKeys, key) {
			continue
		}
		if other, ok := whole[key]; !ok || other != value {
			return false
		}
	}
	return true
}

// becameMirror reports whether the mirror annotation is new. A new mirror annotation is stored but
// not reported.
func becameMirror(stored, in map[string]string) bool {
	_, was := stored[AnnotationMirror]
	_, is := in[AnnotationMirror]
	return is && !was
}
