// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ErrFullName is wrapped by ParseFullName when its argument is not name_namespace.
var ErrFullName = errors.New("podconfig: not a full pod name")

// firstSeenLayout is RFC 3339 with all nine digits, as the kubelet writes it, so that values of one zone sort as text.
const firstSeenLayout = "2006-01-02T15:04:05.000000000Z07:00"

// criticalPriority is the lowest priority of the reserved system classes (kubelet: scheduling.SystemCriticalPriority).
const criticalPriority = 2_000_000_000

// FullName returns name_namespace. DNS names hold no underscore, so it is unambiguous.
func FullName(p *v1.Pod) string {
	return p.Name + "_" + p.Namespace
}

// ParseFullName splits what FullName returned. An argument without exactly two non-empty parts wraps ErrFullName.
func ParseFullName(fullName string) (name, namespace string, err error) {
	name, namespace, found := strings.Cut(fullName, "_")
	if !found || name == "" || namespace == "" || strings.Contains(namespace, "_") {
		return "", "", fmt.Errorf("%w: %q", ErrFullName, fullName)
	}
	return name, namespace, nil
}

// SourceOf returns the name of the source that p came from, and false if p has never been through a Store.
func SourceOf(p *v1.Pod) (string, bool) {
	source, ok := p.Annotations[AnnotationSource]
	return source, ok
}

// IsStatic tells whether p came from a source other than the API server. A pod without source is not static.
func IsStatic(p *v1.Pod) bool {
	source, ok := SourceOf(p)
	return ok && source != SourceAPI
}

// IsMirror tells whether p is the API server's picture of a static pod: AnnotationMirror is there, with any value.
func IsMirror(p *v1.Pod) bool {
	_, ok := p.Annotations[AnnotationMirror]
	return ok
}

// IsCritical tells whether p is static, a mirror, or of system-critical priority (2,000,000,000 and above).
func IsCritical(p *v1.Pod) bool {
	return IsStatic(p) || IsMirror(p) || p.Spec.Priority != nil && *p.Spec.Priority >= criticalPriority
}

// FirstSeen returns when p entered its source, and false if p does not tell or tells it unreadably.
func FirstSeen(p *v1.Pod) (time.Time, bool) {
	text, ok := p.Annotations[AnnotationFirstSeen]
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}
