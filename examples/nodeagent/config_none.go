// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

// configFlags is empty in a program built without API servers, which kubeadm does not configure.
type configFlags struct{}

func (*configFlags) register(*pflag.FlagSet)    {}
func (*configFlags) apply(*pflag.FlagSet) error { return nil }
func (*configFlags) tell(*zap.Logger)           {}
