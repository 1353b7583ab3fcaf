// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"cmp"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// The API's defaults, for pods that were not defaulted by the API server.
const (
	defaultPeriod           = 10 * time.Second
	defaultTimeout          = time.Second
	leastSuccessThreshold   = 1 // and the default
	defaultFailureThreshold = 3
	leastInterval           = time.Millisecond
)

// config is a probe of a container spec with defaults applied. A config is never written to.
type config struct {
	spec             *v1.Probe // nil: the container has no such probe
	timing           Timing
	success, failure int32 // thresholds
}

// configs are the probes of one container, by slot.
type configs [slots]config

// tuneFunc is Options.Tune for one pod.
type tuneFunc func(c *v1.Container, t Type, spec Timing) Timing

func configsOf(c *v1.Container, tune tuneFunc) configs {
	var all configs
	for slot, kind := range order {
		if spec := probeOf(c, kind); spec != nil {
			all[slot] = newConfig(c, kind, spec, tune)
		}
	}
	return all
}

func newConfig(c *v1.Container, kind Type, spec *v1.Probe, tune tuneFunc) config {
	timing := Timing{
		InitialDelay: max(0, seconds(spec.InitialDelaySeconds)),
		Period:       cmp.Or(max(0, seconds(spec.PeriodSeconds)), defaultPeriod),
		Timeout:      cmp.Or(max(0, seconds(spec.TimeoutSeconds)), defaultTimeout),
	}
	if tune != nil {
		timing = tune(c, kind, timing)
		timing.InitialDelay = max(timing.InitialDelay, 0)
		timing.Period = max(timing.Period, leastInterval)
		timing.Timeout = max(timing.Timeout, leastInterval)
	}
	return config{
		spec:    spec,
		timing:  timing,
		success: max(spec.SuccessThreshold, leastSuccessThreshold),
		failure: cmp.Or(max(0, spec.FailureThreshold), defaultFailureThreshold),
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// same reports whether a probe with config c can continue with other.
func (c config) same(other config) bool {
	return c.timing == other.timing && reflect.DeepEqual(c.spec, other.spec)
}

func (c config) isExec() bool { return c.spec.Exec != nil }

func probeOf(c *v1.Container, kind Type) *v1.Probe {
	switch kind {
	case Startup:
		return c.StartupProbe
	case Readiness:
		return c.ReadinessProbe
	case Liveness:
		return c.LivenessProbe
	}
	return nil
}

// place is where in a pod's spec a container is. Only regular containers and sidecars are probed.
type place uint8

const (
	placeNone place = iota
	placeRegular
	placeSidecar   // an init container with restart policy Always
	placePlainInit // any other init container
)

// find returns a container by name. The place is placeNone for an unknown or ephemeral container.
func find(pod *v1.Pod, name string) (*v1.Container, place) {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c, placeRegular
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			if podfacts.IsSidecar(c) {
				return c, placeSidecar
			}
			return c, placePlainInit
		}
	}
	return nil, placeNone
}

// probed returns the container with the given name if the container can be probed, else nil.
func probed(pod *v1.Pod, name string) *v1.Container {
	if c, where := find(pod, name); where == placeRegular || where == placeSidecar {
		return c
	}
	return nil
}
