// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// ErrFullName is wrapped by ParseFullName for an argument not of the form name_namespace.
var ErrFullName = errors.New("podconfig: not a full pod name")

// firstSeenLayout is RFC 3339 with nine fractional digits, as in the kubelet, so that values in the
// same zone sort as text.
const firstSeenLayout = "2006-01-02T15:04:05.000000000Z07:00"

// FullName returns name_namespace. The result is unambiguous, because DNS names contain no
// underscore.
func FullName(p *v1.Pod) string {
	return p.Name + "_" + p.Namespace
}

// ParseFullName splits a result of FullName. The error wraps ErrFullName unless the argument has
// exactly two non-empty parts.
func ParseFullName(fullName string) (name, namespace string, err error) {
	name, namespace, _ = strings.Cut(fullName, "_")
	if name == "" || namespace == "" || strings.Contains(namespace, "_") {
		return "", "", fmt.Errorf("%w: %q", ErrFullName, fullName)
	}
	return name, namespace, nil
}

// SourceOf returns the name of p's source, or false if p has never been through a Store.
func SourceOf(p *v1.Pod) (string, bool) {
	source, ok := p.Annotations[AnnotationSource]
	return source, ok
}

// IsStatic reports whether p came from a source other than the API server. A pod without source is
// not static.
func IsStatic(p *v1.Pod) bool {
	return podfacts.IsStatic(p)
}

// IsMirror reports whether p is the API server's copy of a static pod: AnnotationMirror is set to
// any value.
func IsMirror(p *v1.Pod) bool {
	return podfacts.IsMirror(p)
}

// IsCritical reports whether p is static, a mirror, or of system-critical priority (2,000,000,000
// and above).
func IsCritical(p *v1.Pod) bool {
	return podfacts.IsCritical(p)
}

// FirstSeen returns the time at which p entered its source, or false if the annotation is absent or
// invalid.
func FirstSeen(p *v1.Pod) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, p.Annotations[AnnotationFirstSeen])
	return at, err == nil
}
