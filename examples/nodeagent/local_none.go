// SPDX-License-Identifier: Apache-2.0

//go:build nolocalapi

package main

import (
	"context"
	"io"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

// localFlags is empty in a program built without the API for kubectl.
type localFlags struct{}

func (*localFlags) register(*pflag.FlagSet) {}
func (*localFlags) complete(*flags) error   { return nil }

// local is empty in a program built without the API for kubectl.
type local struct{}

func newLocal(flags, *zap.Logger) (*local, error) { return nil, nil }

func (*local) apply(*node.Options) {}
func (*local) poke()               {}

func (*local) start(context.Context, serverParts) (func(context.Context), error) {
	return func(context.Context) {}, nil
}

// runCommand knows no commands.
func runCommand([]string, io.Writer, io.Writer) (code int, isCommand bool) { return 0, false }
