// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime/cri"
)

// logFlags limit the logs of containers. Names and defaults are the kubelet's (1.36). The zero value
// leaves the limits to the backend.
type logFlags struct {
	maxSize  quantityFlag // bytes
	maxFiles int
}

// quantityFlag is the positive value of a flag in the notation of a quantity.
type quantityFlag int64

// String implements pflag.Value.
func (q *quantityFlag) String() string {
	return resource.NewQuantity(int64(*q), resource.BinarySI).String()
}

// Type implements pflag.Value.
func (*quantityFlag) Type() string { return "quantity" }

// Set implements pflag.Value.
func (q *quantityFlag) Set(text string) error {
	parsed, err := resource.ParseQuantity(text)
	if err == nil && parsed.Value() <= 0 {
		err = errors.New("want more than 0")
	}
	*q = quantityFlag(parsed.Value())
	return err
}

func (l *logFlags) register(set *pflag.FlagSet) {
	l.maxSize = 10 << 20
	set.Var(&l.maxSize, "container-log-max-size", "size above which a container's log file is rotated, e.g. 512Ki")
	set.IntVar(&l.maxFiles, "container-log-max-files", 5, "how many log files a container may have, including rotated files; at least 2")
}

func (l *logFlags) check() error {
	if l.maxFiles < 2 {
		return fmt.Errorf("--container-log-max-files %d: want 2 or more", l.maxFiles)
	}
	return nil
}

// criFlags configure the containers of a container runtime. The meaning is that of the kubelet's
// configuration (1.36).
type criFlags struct {
	classes        map[string]string // runtime handler by name of the RuntimeClass
	seccompDefault bool
	swap           string
	throttling     float64 // 0: off
	reservation    string
}

func (c *criFlags) register(set *pflag.FlagSet) {
	set.StringToStringVar(&c.classes, "runtime-classes", nil, "with a container runtime: handler of the runtime for each runtimeClassName of pods, as `class=handler,...`; with --kubeconfig, other classes are those of the API server")
	set.BoolVar(&c.seccompDefault, "seccomp-default", false, "with a container runtime: the runtime's seccomp profile for containers without a profile")
	set.StringVar(&c.swap, "swap-behavior", "", "with a container runtime and cgroup v2: NoSwap, or LimitedSwap for a share of the swap to burstable pods (default: the runtime decides)")
	set.Float64Var(&c.throttling, "memory-throttling-factor", 0, "with a container runtime and cgroup v2: slow containers down at this part of the way from the request of memory to the limit, e.g. 0.9; 0 = never")
	set.StringVar(&c.reservation, "memory-reservation-policy", string(cri.NoReservation), "with a container runtime and cgroup v2: None, or TieredReservation: requested memory is never reclaimed from guaranteed pods, and reclaimed last from burstable pods")
}

// check refuses flags that cannot take effect on the endpoint.
func (c *criFlags) check(endpoint string) error {
	set := len(c.classes) > 0 || c.seccompDefault || c.swap != "" || c.throttling != 0 || c.isReserved()
	switch {
	case set && endpoint == processEndpoint:
		return errors.New("--runtime-classes, --seccomp-default, --swap-behavior, --memory-throttling-factor and --memory-reservation-policy are for a container runtime")
	case c.swap != "" && c.swap != string(cri.NoSwap) && c.swap != string(cri.LimitedSwap):
		return fmt.Errorf("--swap-behavior %q: want NoSwap or LimitedSwap", c.swap)
	case c.reservation != string(cri.NoReservation) && !c.isReserved():
		return fmt.Errorf("--memory-reservation-policy %q: want None or TieredReservation", c.reservation)
	case !(c.throttling >= 0 && c.throttling <= 1): // nor NaN
		return fmt.Errorf("--memory-throttling-factor %v: want 0 to 1", c.throttling)
	}
	return nil
}

// isReserved reports whether requested memory is protected.
func (c *criFlags) isReserved() bool { return c.reservation == string(cri.TieredReservation) }

// apply sets the options of the CRI backend.
func (c *criFlags) apply(o *cri.Options) {
	o.RuntimeHandlers, o.SeccompDefault, o.Swap = c.classes, c.seccompDefault, cri.SwapPolicy(c.swap)
	if c.throttling > 0 || c.isReserved() {
		o.MemoryQoS = &cri.MemoryQoS{Reservation: cri.MemoryReservation(c.reservation), ThrottlingFactor: c.throttling}
	}
}
