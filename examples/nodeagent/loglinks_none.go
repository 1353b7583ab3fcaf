// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

// linkFlags is empty in a program built for small nodes, whose collectors follow --pod-logs-dir.
type linkFlags struct{}

func (*linkFlags) register(*pflag.FlagSet)       {}
func (*linkFlags) complete(string, string) error { return nil }

func (*flags) features(others func(*feature.Host) []feature.Feature, _ *zap.Logger) func(*feature.Host) []feature.Feature {
	return others
}
