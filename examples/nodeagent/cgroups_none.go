// SPDX-License-Identifier: Apache-2.0

//go:build !linux || nocgroups

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime/cri"
	"github.com/keelson-dev/keelson/runtime/process"
)

// cgroupFlags are the flags of a program built without the hierarchy of cgroups for a container runtime.
type cgroupFlags struct {
	root    string
	podPIDs int64
}

func (c *cgroupFlags) register(set *pflag.FlagSet) {
	set.StringVar(&c.root, "cgroup-root", "", "with processes: cgroup for the limits of pods; without it, pods with limits are refused")
	set.Int64Var(&c.podPIDs, "pod-max-pids", -1, "with processes: how many processes and threads each pod may have; -1 = any number")
}

// limit sets the options of the process backend.
func (c *cgroupFlags) limit(o *process.Options) { o.Cgroup, o.PodPIDs = c.root, max(c.podPIDs, 0) }

func (*cgroupFlags) complete(*flags, *pflag.FlagSet) error { return nil }
func (*cgroupFlags) limitsPods() bool                      { return false }
func (*cgroupFlags) ofAllPods() string                     { return "" }
func (*cgroupFlags) apply(*cri.Options)                    {}

// podCgroups is empty in a program built without cgroups for pods.
type podCgroups struct{}

func newCgroups(flags, cri.Backend, *metrics, *zap.Logger) (*podCgroups, error) { return nil, nil }

func cgroupFeatures(*podCgroups) features { return nil }
