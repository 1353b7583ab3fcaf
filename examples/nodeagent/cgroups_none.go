// SPDX-License-Identifier: Apache-2.0

//go:build !linux || nocgroups

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// cgroupFlags is empty in a program built without cgroups for pods.
type cgroupFlags struct{}

func (*cgroupFlags) register(*pflag.FlagSet)               {}
func (*cgroupFlags) complete(*flags, *pflag.FlagSet) error { return nil }
func (*cgroupFlags) limitsPods() bool                      { return false }
func (*cgroupFlags) ofAllPods() string                     { return "" }
func (*cgroupFlags) apply(*cri.Options)                    {}

// podCgroups is empty in a program built without cgroups for pods.
type podCgroups struct{}

func newCgroups(flags, cri.Backend, *metrics, *zap.Logger) (*podCgroups, error) { return nil, nil }

func cgroupFeatures(*podCgroups) func(*feature.Host) []feature.Feature { return nil }
