// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"errors"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

// statusFlags is empty in a program built without API servers.
type statusFlags struct{}

func (*statusFlags) register(*pflag.FlagSet)       {}
func (*statusFlags) complete(*pflag.FlagSet) error { return nil }

func joinCluster(flags, news, *zap.Logger) (*membership, error) {
	return nil, errors.New("--kubeconfig: this program was built without API servers (tag noapiserver)")
}
