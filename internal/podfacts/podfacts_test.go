// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSources(t *testing.T) {
	for _, tc := range []struct {
		name           string
		annotations    map[string]string
		static, mirror bool
	}{
		{"no source", nil, false, false},
		{"API server", map[string]string{AnnotationSource: "api"}, false, false},
		{"file", map[string]string{AnnotationSource: "file"}, true, false},
		{"empty source", map[string]string{AnnotationSource: ""}, true, false},
		{"mirror", map[string]string{AnnotationSource: "api", AnnotationMirror: ""}, false, true},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
		assert.Equal(t, tc.static, IsStatic(pod), tc.name)
		assert.Equal(t, tc.mirror, IsMirror(pod), tc.name)
	}
}

func TestPhases(t *testing.T) {
	for phase, want := range map[v1.PodPhase]bool{"": false, v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true} {
		assert.Equal(t, want, IsTerminal(phase), phase)
	}
}

func TestSidecars(t *testing.T) {
	always, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	assert.True(t, IsSidecar(&v1.Container{RestartPolicy: &always}))
	assert.False(t, IsSidecar(&v1.Container{RestartPolicy: &never}))
	assert.False(t, IsSidecar(&v1.Container{}))
}
