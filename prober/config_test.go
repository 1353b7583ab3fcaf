// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestConfigOfUndefaultedSpec: in the kubelet a period of 0 panics.
func TestConfigOfUndefaultedSpec(t *testing.T) {
	c := &v1.Container{LivenessProbe: &v1.Probe{}, ReadinessProbe: &v1.Probe{
		InitialDelaySeconds: -1, PeriodSeconds: -1, TimeoutSeconds: -1, SuccessThreshold: -1, FailureThreshold: -1,
	}}
	all := configsOf(c, nil)
	require.Nil(t, all[slotStartup].spec)
	for _, slot := range []int{slotLiveness, slotReadiness} {
		got := all[slot]
		assert.Equal(t, Timing{Period: 10 * time.Second, Timeout: time.Second}, got.timing)
		assert.Equal(t, int32(1), got.success)
		assert.Equal(t, int32(3), got.failure)
	}
}

func TestConfigOfExtremes(t *testing.T) {
	c := &v1.Container{StartupProbe: &v1.Probe{
		InitialDelaySeconds: math.MaxInt32, PeriodSeconds: math.MaxInt32, TimeoutSeconds: math.MaxInt32,
	}}
	got := configsOf(c, nil)[slotStartup]
	century := 68 * 365 * 24 * time.Hour
	assert.Greater(t, got.timing.InitialDelay, century)
	assert.Greater(t, got.timing.Period, century)
	assert.Greater(t, got.timing.Timeout, century)
}

func TestTune(t *testing.T) {
	c := &v1.Container{Name: "c", StartupProbe: &v1.Probe{PeriodSeconds: 2}}
	tune := func(got *v1.Container, kind Type, spec Timing) Timing {
		assert.Same(t, c, got)
		assert.Equal(t, Startup, kind)
		assert.Equal(t, Timing{Period: 2 * time.Second, Timeout: time.Second}, spec)
		return Timing{InitialDelay: -1, Period: 1, Timeout: 250 * time.Millisecond}
	}
	got := configsOf(c, tune)[slotStartup]
	assert.Equal(t, Timing{Period: time.Millisecond, Timeout: 250 * time.Millisecond}, got.timing)
	none := func(*v1.Container, Type, Timing) Timing { return Timing{} }
	assert.Equal(t, Timing{Period: time.Millisecond, Timeout: time.Millisecond}, configsOf(c, none)[slotStartup].timing)
	assert.False(t, got.same(configsOf(c, nil)[slotStartup]))
	assert.True(t, got.same(configsOf(c, tune)[slotStartup]))
}

func TestFind(t *testing.T) {
	always, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers:      []v1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}, {Name: "once", RestartPolicy: &never}},
		Containers:          []v1.Container{{Name: "web"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	for name, want := range map[string]place{
		"web": placeRegular, "sidecar": placeSidecar, "init": placePlainInit, "once": placePlainInit, "debug": placeNone, "": placeNone,
	} {
		c, got := find(pod, name)
		assert.Equal(t, want, got, name)
		assert.Equal(t, want != placeNone, c != nil, name)
		assert.Equal(t, want == placeRegular || want == placeSidecar, probed(pod, name) != nil, name)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Options.Handler is required":              {},
		"Options.ErrorsAsFailureAfter is negative": {Handler: HandlerFunc(nil), ErrorsAsFailureAfter: -4},
	} {
		_, err := New(o)
		assert.ErrorContains(t, err, want)
	}
	p, err := New(Options{Handler: HandlerFunc(nil)})
	require.NoError(t, err)
	for range 100 {
		assert.Less(t, p.options.Jitter(time.Second), time.Second)
	}
}

func TestWords(t *testing.T) {
	assert.Equal(t, "Liveness|Readiness|Startup", All.String())
	assert.Equal(t, "None", Type(0).String())
	assert.Equal(t, "Unknown Success Failure", Unknown.String()+" "+Success.String()+" "+Failure.String())
	assert.Equal(t, "unknown success warning failure", none.String()+" "+yes.String()+" "+warn.String()+" "+no.String())
	var stages string
	for s := StageGated; s <= StageStopped; s++ {
		stages += s.String() + " "
	}
	assert.Equal(t, "gated waiting queued running over stopped ", stages)
}
