// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
)

// pluginFlags is empty in a small program, built without API servers.
type pluginFlags struct{}

func (*pluginFlags) register(*pflag.FlagSet) {}
func (*pluginFlags) check(bool) error        { return nil }

func (*pluginFlags) keyring(*metrics, *zap.Logger) (runtime.Keyring, error) { return nil, nil }
