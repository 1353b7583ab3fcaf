// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

// gateFlags is empty in a program built for small nodes.
type gateFlags struct{}

func (*gateFlags) register(*pflag.FlagSet) {}
func (*gateFlags) complete(string) error   { return nil }
func (*gateFlags) tell(*zap.Logger)        {}

func (*gateFlags) features(others func(*feature.Host) []feature.Feature, _ *zap.Logger) func(*feature.Host) []feature.Feature {
	return others
}
