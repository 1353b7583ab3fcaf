// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEventOf: the first of a kind in a row is told, and a failure that became a result.
func TestEventOf(t *testing.T) {
	const failed, warned = "Warning Unhealthy Readiness probe failed: out", "Warning ProbeWarning Readiness probe warning: out"
	const errored = "Warning Unhealthy Readiness probe errored and resulted in unknown state: oh"
	for _, tt := range []struct {
		verdict                                 Verdict
		first, repeated, result, repeatedResult string
	}{
		{verdict: yes},
		{verdict: no, first: failed, result: failed, repeatedResult: failed},
		{verdict: warn, first: warned, result: warned},
		{verdict: none, first: errored, result: errored, repeatedResult: errored},
	} {
		for want, a := range map[*string]Attempt{
			&tt.first: {}, &tt.repeated: {Repeated: true}, &tt.result: {Published: true},
			&tt.repeatedResult: {Repeated: true, Published: true},
		} {
			a.Target.Type, a.Verdict, a.Output = Readiness, tt.verdict, "out"
			if tt.verdict == none {
				a.Err = errors.New("oh")
			}
			got := ""
			if e, ok := eventOf(a); ok {
				got = fmt.Sprint(e.eventType, " ", e.reason, " ", e.message)
			}
			assert.Equal(t, *want, got, "%s repeated %t published %t", tt.verdict, a.Repeated, a.Published)
		}
	}
}

func TestReference(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7"},
		Spec: v1.PodSpec{
			Containers:     []v1.Container{{Name: "c"}},
			InitContainers: []v1.Container{{Name: "sidecar", RestartPolicy: &always}},
		},
	}
	for c, path := range map[*v1.Container]string{
		&pod.Spec.Containers[0]: "spec.containers{c}", &pod.Spec.InitContainers[0]: "spec.initContainers{sidecar}",
	} {
		assert.Equal(t, &v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7", FieldPath: path,
		}, reference(Target{Pod: pod, Container: c}))
	}
}

// TestUpdateOf: an Update identifies the container, and has the grace period of a probe that kills.
func TestUpdateOf(t *testing.T) {
	grace := int64(7)
	for kind, want := range map[Type]*int64{Liveness: &grace, Startup: &grace, Readiness: nil} {
		spec := &v1.Probe{FailureThreshold: 1, TerminationGracePeriodSeconds: &grace}
		c := v1.Container{}
		slot := slotLiveness
		switch kind {
		case Liveness:
			c.LivenessProbe = spec
		case Startup:
			c.StartupProbe, slot = spec, slotStartup
		case Readiness:
			c.ReadinessProbe, slot = spec, slotReadiness
		}
		d := newDesk(t, c)
		d.pod.Namespace = "ns"
		p := d.probe(slot)
		p.tally.published = Failure
		u := p.update()
		assert.Equal(t, want, u.TerminationGracePeriodSeconds, kind)
		u.TerminationGracePeriodSeconds = nil
		w := Update{PodUID: "web", Container: "c", ID: "c1", Type: kind, Result: Failure}
		w.Pod.Namespace, w.Pod.Name = "ns", "web"
		assert.Equal(t, w, u)
		p.tally.published = Success
		assert.Nil(t, p.update().TerminationGracePeriodSeconds)
	}
}
