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
		pod.Name, pod.Namespace = "web", "ns"
		assert.Equal(t, map[bool]string{true: "web_ns"}[tc.static], StaticName(pod), tc.name)
	}
	assert.Empty(t, StaticName(nil))
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

func TestGatesDiffer(t *testing.T) {
	pod := func(gate v1.PodConditionType, conditions ...v1.PodCondition) *v1.Pod {
		p := &v1.Pod{Status: v1.PodStatus{Conditions: conditions}}
		if gate != "" {
			p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "other"}, {ConditionType: gate}}
		}
		return p
	}
	is := func(kind v1.PodConditionType, status v1.ConditionStatus) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: status}
	}
	for name, tc := range map[string]struct {
		old, now *v1.Pod
		want     bool
	}{
		"no gate":           {pod("", is("a", "True")), pod("", is("a", "False")), false},
		"the same":          {pod("a", is("a", "True")), pod("a", is("b", "True"), is("a", "True")), false},
		"another condition": {pod("a", is("b", "True")), pod("a", is("b", "False")), false},
		"opened":            {pod("a", is("a", "False")), pod("a", is("a", "True")), true},
		"closed":            {pod("a", is("a", "True")), pod("a", is("a", "False")), true},
		"new":               {pod("a"), pod("a", is("a", "False")), true},
		"gone":              {pod("a", is("a", "True")), pod("a"), true},
	} {
		assert.Equal(t, tc.want, GatesDiffer(tc.old, tc.now), name)
	}
}

func TestGracePeriod(t *testing.T) {
	pod := &v1.Pod{}
	assert.Equal(t, int64(30), GracePeriodSeconds(pod), "the API's default")
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	assert.Equal(t, int64(0), GracePeriodSeconds(pod), "an explicit 0 counts")
}
